// The page Overview.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api, close, gateway, open } from '../kit.mjs';

export const screens = { overview: '/' };

export function tests() {
  test('the overview shows warnings in words, and the numbers of the API call beside them', async () => {
    for (let i = 0; i < 4; i++) await gateway.send(gateway.clients[2], 'broken'); // ejects its target for half a minute
    const page = await open({ role: 'owner' });
    await page.getByRole('list', { name: 'Warnings' }).getByText('broken has no target that gets requests').waitFor();
    const shown = page.locator('.source-line');
    await shown.getByText('API call').click();
    const call = (await shown.locator('code').innerText()).replace(/^GET \/api\/v1/, '');
    const sum = (await api(call)).sums[0];
    await page.getByText(new Intl.NumberFormat('en-GB').format(sum.requests), { exact: true }).first().waitFor();
    await page.getByLabel('Time').selectOption('7d');
    await page.getByText('Requests per day').waitFor();
    assert.match(page.url(), /range=7d/);
    await page.getByLabel('Time').selectOption('custom');
    await page.getByLabel('From').fill('2020-01-01T00:00');
    await page.getByLabel('To', { exact: true }).fill('2020-01-02T00:00');
    await page.getByText('No requests in this time').waitFor();
    await close(page);
  });
}
