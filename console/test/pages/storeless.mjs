// A gateway without a store.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { close, findViolations, gateway, open, shots } from '../kit.mjs';
import { Gateway } from '../rig.mjs';

export function tests() {
  test('without a store the console shows models and says what is missing', async () => {
    const bare = await Gateway.start({ store: false });
    try {
      for (const [width, dark] of [[1280, false], [375, true]]) {
        const page = await open({ from: bare, width, dark });
        await page.getByText('This gateway has no store.').waitFor();
        await page.getByRole('table', { name: 'Models' }).getByText('up/fast-1').waitFor();
        assert.deepEqual(await findViolations(page), []);
        assert.equal(await page.locator('main button').filter({ hasNotText: 'Copy' }).count(), 0);
        if (width < 800) await page.getByRole('button', { name: 'Menu' }).click();
        await page.getByRole('link', { name: 'Translate' }).click();
        await page.getByRole('region', { name: 'Gemini', exact: true }).waitFor();
        assert.deepEqual(await findViolations(page), []);
        await page.goBack();
        await page.getByText('This gateway has no store.').waitFor();
        await page.screenshot({ path: shots + 'storeless-' + width + (dark ? '-dark' : '-light') + '.png', fullPage: true });
        await close(page);
      }
    } finally {
      await bare.stop();
    }
  });
}
