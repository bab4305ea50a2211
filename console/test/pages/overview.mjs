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
    await page.getByRole('list', { name: 'Warnings' }).getByText(/^up\/broken at .* ejected until .*: HTTP 500\.$/).waitFor();
    const shown = page.locator('.usage-source');
    await shown.getByText('API call').click();
    const call = (await shown.locator('code').innerText()).replace(/^GET \/api\/v1/, '');
    const sum = (await api(call)).total;
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

  test('the overview warns of a budget that is nearly used up', async () => {
    const spent = (await api('/orgs/acme/teams/search/limits')).spent;
    const put = (budget) => gateway.api(gateway.keys.owner, '/orgs/acme/teams/search/budget', { method: 'PUT', body: JSON.stringify({ budget, window_seconds: 2592000 }) });
    await put((Number(spent) * 1.1).toFixed(9));
    const page = await open({ role: 'billing' });
    await page.getByRole('list', { name: 'Warnings' }).getByText('The budget of team acme/search is nearly used up').waitFor();
    await put('20');
    await close(page);
  });

  test('the overview draws errors and times to first token, by model or by target, and what is open now', async () => {
    const page = await open({ role: 'auditor' });
    await page.getByRole('img', { name: /^First token\. Last: p50 [\d.]+ m?s, p95 / }).waitFor();
    await page.getByRole('img', { name: /^Errors by model\. .*broken: / }).waitFor();
    await page.getByLabel('Charts by').selectOption('target');
    await page.getByRole('img', { name: /^Errors by target\. .*up\/broken: / }).waitFor();
    const sum = (await api('/usage?from=' + new Date(Date.now() - 86_400_000).toISOString().slice(0, 19) + 'Z')).sums[0];
    assert.ok(sum.errors >= 3 && sum.first_token.count >= 6);
    const tile = (name) => page.locator('dl.tiles > div').filter({ has: page.locator('dt', { hasText: new RegExp('^' + name + '$') }) });
    await tile('Errors').getByText('of the requests').waitFor();
    await tile('First token').getByText(/p95 .* of \d+ streams/).waitFor();
    await tile('Not in the ledger yet').waitFor();
    await tile('Open requests').waitFor();
    const [node] = (await api('/nodes')).nodes;
    await tile('Nodes').getByText(node.version).waitFor();
    await close(page);
  });
}
