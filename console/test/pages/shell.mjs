// What all pages share: the palette, times.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { close, open } from '../kit.mjs';

export const screens = { missing: '/console/nothing' };

export function tests() {
  test('the palette opens pages and keys by keyboard', async () => {
    const page = await open({ role: 'owner' });
    await page.keyboard.press('Control+k');
    await page.keyboard.type('aud');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Audit' }).waitFor();
    await page.keyboard.press('Control+k');
    await page.keyboard.type('notebooks');
    await page.getByRole('option', { name: 'notebooks' }).waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'notebooks' }).waitFor();
    await page.keyboard.press('Control+k');
    await page.keyboard.type('theme: dark');
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => getComputedStyle(document.body).backgroundColor === 'rgb(20, 24, 26)');
    await close(page);
  });

  test('times are in the zone of the viewer, with UTC on hover', async () => {
    const page = await open({ role: 'owner', path: '/console/config' });
    const time = page.locator('main time').first();
    const at = new Date(await time.getAttribute('datetime'));
    assert.equal(await time.getAttribute('title'), at.toISOString().slice(0, 19).replace('T', ' ') + ' UTC');
    const paris = at.toLocaleTimeString('en-GB', { timeZone: 'Europe/Paris' });
    assert.ok((await time.innerText()).includes(paris));
    await close(page);
  });
}
