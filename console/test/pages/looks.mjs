// How every screen looks: axe-core, light and dark, wide and narrow; screenshots.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allPages, close, findViolations, gateway, go, open, settled, shots } from '../kit.mjs';

export function tests() {
  for (const [width, dark] of [[1280, false], [1280, true], [375, false], [375, true]]) {
    const name = width + (dark ? '-dark' : '-light');
    test('every page at ' + name + ' has no violation and fits', async () => {
      const page = await open({ width, dark });
      const check = async (what) => {
        await settled(page);
        await page.waitForTimeout(150); // charts draw in the next frame
        assert.deepEqual(await findViolations(page), [], what);
        assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false, what + ' is wider than the screen');
        const height = Math.min(2400, await page.evaluate(() => document.documentElement.scrollHeight));
        await page.screenshot({ path: shots + what + '-' + name + '.png', fullPage: true, clip: { x: 0, y: 0, width, height } });
      };
      await check('sign-in');
      await page.getByLabel("Operator's key").fill(gateway.keys.owner);
      await page.getByRole('button', { name: 'Use this key' }).click();
      await page.getByRole('heading', { name: 'Overview' }).waitFor();
      for (const [what, path] of Object.entries(await allPages())) {
        await go(page, path);
        await check(what);
      }
      await go(page, '/console/models/shared');
      await page.getByLabel('Request body').fill('{"model":"shared","seed":1,"logit_bias":{"1":2},"messages":[{"role":"user","content":"Hello"}]}');
      await page.getByRole('button', { name: 'Explain' }).click();
      await page.getByText('A request for shared goes to').waitFor();
      await page.evaluate(() => scrollTo(0, 0));
      await check('explain');
      await go(page, '/console/keys?new=1');
      await page.getByRole('dialog').waitFor();
      await check('create-key');
      await page.keyboard.press('Escape');
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      await page.keyboard.press('Control+k');
      await page.getByRole('combobox', { name: 'Page, key' }).waitFor();
      await check('palette');
      await close(page);
    });
  }
}
