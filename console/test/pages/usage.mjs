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
    assert.equal(lines[0], 'model,key,key_name,requests,errors,refused,input,cache_read,cache_write,output,reasoning,cost,unpriced,estimated');
    const quoted = (name) => (/[",]/.test(name) ? '"' + name.replaceAll('"', '""') + '"' : name);
    const line = (s) => [s.model, s.key, quoted(s.key_name), s.requests, s.errors, s.refused, s.tokens.input, s.tokens.cache_read, s.tokens.cache_write, s.tokens.output, s.tokens.reasoning, s.cost, s.unpriced, s.estimated].join(',');
    assert.deepEqual(lines.slice(1).sort(), want.map(line).sort());
    await close(page);
  });

  test('teams and organisations have their names, in the table and in the file', async () => {
    const page = await open({ role: 'billing', path: '/console/usage?by=team' });
    const sums = page.getByRole('region', { name: 'Sums' });
    await sums.getByRole('cell', { name: 'Acme Inc. / Search' }).waitFor();
    await page.getByLabel('And by').selectOption('org');
    await sums.getByRole('cell', { name: 'Acme Inc.', exact: true }).first().waitFor();
    await sums.getByRole('cell', { name: 'Search', exact: true }).waitFor();
    const waiting = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Download CSV' }).click();
    const lines = (await readFile(await (await waiting).path(), 'utf8')).trim().split('\r\n');
    assert.match(lines[0], /^team,team_name,org,org_name,requests/);
    assert.ok(lines.some((l) => l.startsWith('search,Search,acme,Acme Inc.,')), lines.join('\n'));
    await close(page);
  });

  test('usage is summed up by a tag, and by a tag and the model', async () => {
    const page = await open({ role: 'owner', path: '/console/usage?by=tag' });
    await page.getByText('Which tag?').waitFor();
    await page.getByLabel('Key of the tag').fill('feature');
    await page.keyboard.press('Enter');
    const sums = page.getByRole('region', { name: 'Sums' });
    await sums.getByRole('row').filter({ hasText: 'summaries' }).waitFor();
    await page.getByLabel('And by').selectOption('model');
    await sums.getByRole('row').filter({ hasText: 'summaries' }).filter({ hasText: 'fast' }).waitFor();
    assert.deepEqual(await page.getByLabel('And by').locator('option').allInnerTexts(), ['nothing else', 'model', 'target', 'key or person', 'team', 'organisation']);
    await sums.getByText('API call').click();
    const call = (await sums.locator('.source code').innerText()).replace(/^GET \/api\/v1/, '');
    assert.match(call, /group=tag:feature,model/);
    const want = (await api(call)).sums.find((s) => s.tag === 'summaries');
    assert.ok(want.requests >= 2);
    await page.getByLabel('Show').selectOption('errors');
    await page.getByText('Errors per day').waitFor();
    await close(page);
  });
}
