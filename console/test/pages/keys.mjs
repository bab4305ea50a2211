// The page Keys and people.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api, close, gateway, open } from '../kit.mjs';
import { until } from '../rig.mjs';

export const screens = { keys: '/console/keys', key: async () => '/console/keys/' + (await api('/keys?org=acme')).keys.find((k) => k.name === 'ci').id };

export function tests() {
  test('a key is created, shown once, changed, rotated and revoked', async () => {
    const page = await open({ role: 'owner', path: '/console/keys' });
    await page.getByRole('button', { name: 'Create a key' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill('from the console');
    await dialog.getByLabel('Organisation').selectOption('acme');
    await dialog.getByLabel('Team').selectOption('search');
    await dialog.getByLabel('Requests per minute').fill('77');
    await dialog.getByLabel('Budget in dollars').fill('1.5');
    await dialog.getByRole('button', { name: 'Create' }).click();
    await dialog.getByText('Copy the key now').waitFor();
    const text = await dialog.locator('.secret code').innerText();
    assert.equal(await gateway.send(text, 'fast'), 200);
    await dialog.getByRole('button', { name: 'Done' }).click();
    assert.equal(await page.getByText(text).count(), 0);
    await page.getByRole('link', { name: 'from the console' }).click();
    await page.getByText('of 77').waitFor();
    await page.getByText('of $1.50').waitFor();
    await page.getByText(/(Lasts|Used up in about .*) at this rate: \$/).waitFor();

    await page.getByRole('button', { name: 'Change' }).click();
    await dialog.getByLabel('Name').fill('renamed');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { name: 'renamed', exact: true }).waitFor(); // and the dialog's, until it closes

    await page.getByRole('button', { name: 'Set budget' }).click();
    await dialog.getByLabel('Budget in dollars').fill('2');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByText('of $2.00').waitFor();

    await page.getByRole('button', { name: 'Rotate' }).click();
    await dialog.getByRole('button', { name: 'Rotate' }).click();
    await dialog.getByText('Copy the key now').waitFor();
    const next = await dialog.locator('.secret code').innerText();
    assert.notEqual(next, text);
    await dialog.getByRole('button', { name: 'Done' }).click();
    await page.getByText('two: the old one until').waitFor();

    await page.getByRole('button', { name: 'Revoke' }).click();
    await dialog.getByRole('button', { name: 'Revoke' }).click();
    await page.getByText('revoked', { exact: true }).waitFor();
    assert.equal(await page.getByRole('button', { name: 'Rotate' }).count(), 0);
    await until('the key is refused', async () => (await gateway.send(next, 'fast')) === 401); // nodes hear of it within a second
    await close(page);
  });
}
