// Names and texts that would run as HTML.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allPages, api, close, go, open, settled } from '../kit.mjs';
import { evil } from '../rig.mjs';

export function tests() {
  test('names are text, never HTML', async () => {
    const page = await open({ role: 'owner' });
    const paths = await allPages();
    const odd = (await api('/keys')).keys.find((k) => k.name === evil);
    for (const path of [...Object.values(paths), '/console/keys/' + odd.id, '/console/models/' + encodeURIComponent(evil), '/console/exchanges?model=' + encodeURIComponent(evil), '/console/' + encodeURIComponent(evil)]) {
      await go(page, path);
      await settled(page);
      assert.equal(await page.locator('img').count(), 0, path);
    }
    await go(page, '/console/keys');
    await page.getByRole('link', { name: evil }).waitFor();
    await go(page, '/console/models');
    await page.getByRole('link', { name: evil }).click();
    await page.getByRole('heading', { name: evil, level: 1 }).waitFor();
    await page.getByRole('button', { name: 'Explain' }).click();
    await page.getByText('A request for ' + evil + ' goes to up/odd').waitFor();
    assert.equal(await page.locator('img').count(), 0);
    await page.keyboard.press('Control+k');
    await page.getByRole('option', { name: 'Overview' }).waitFor();
    assert.equal(await page.locator('img').count(), 0);
    await close(page);
  });
}
