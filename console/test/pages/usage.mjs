// The page Usage.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { api, close, open } from '../kit.mjs';

export const screens = { usage: '/console/usage?by=model&then=key' };

export function tests() {
  test('usage is stacked by two dimensions and downloaded as CSV', async () => {
    const page = await open({ role: 'billing', path: '/console/usage' });
    await page.getByLabel('And by').selectOption('key');
    await page.getByLabel('Show').selectOption('requests');
    await page.getByRole('img', { name: /requests by model and key/ }).waitFor();
    const waiting = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Download CSV' }).click();
    const lines = (await readFile(await (await waiting).path(), 'utf8')).trim().split('\r\n');
    const sums = page.getByRole('region', { name: 'Sums' });
    await sums.getByText('API call').click();
    const call = (await sums.locator('.source code').innerText()).replace(/^GET \/api\/v1/, '');
    const want = (await api(call)).sums;
    assert.equal(lines[0], 'model,key,requests,input,cache_read,cache_write,output,reasoning,cost,unpriced,estimated');
    const line = (s) => [s.model, s.key, s.requests, s.tokens.input, s.tokens.cache_read, s.tokens.cache_write, s.tokens.output, s.tokens.reasoning, s.cost, s.unpriced, s.estimated].join(',');
    assert.deepEqual(lines.slice(1).sort(), want.map(line).sort());
    await close(page);
  });
}
