// The page Exchanges.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api, close, gateway, go, open, retriedRequest } from '../kit.mjs';
import { until } from '../rig.mjs';

export const screens = {
  exchanges: '/console/exchanges', 'exchanges-live': '/console/exchanges?live=1',
  exchange: async () => '/console/exchanges/' + (await retriedRequest()).id,
  'exchange-lost': async () => '/console/exchanges/' + await translatedRequest(),
};

let translated;

// translatedRequest returns the id of a request that was translated with losses.
async function translatedRequest() {
  if (translated) return translated;
  const body = { model: 'translated', messages: [{ role: 'user', content: 'Hello' }], logit_bias: { 1: 2 }, seed: 7 };
  const { id } = await gateway.request(gateway.clients[3], body, { 'User-Agent': 'a-client/1.2', 'Isogloss-Tags': 'feature=import' });
  await until('the ledger has the request', async () => (await api('/requests/' + id)).id);
  translated = id;
  return id;
}

export function tests() {
  test('exchanges are filtered, and one shows its attempts and its price', async () => {
    const page = await open({ role: 'auditor', path: '/console/exchanges' });
    const table = page.getByRole('table', { name: 'Exchanges' });
    await page.getByLabel('Model').fill('careful');
    await page.keyboard.press('Enter');
    await page.waitForURL(/model=careful/);
    await page.waitForFunction(() => [...document.querySelectorAll('tbody tr td:nth-child(3)')].every((c) => c.textContent.startsWith('careful')));
    await page.getByLabel('Outcome').selectOption('failed');
    await page.getByText('No exchange matches the filters').waitFor();
    await page.getByRole('link', { name: 'remove the filters' }).click();
    await table.waitFor();
    const retried = await retriedRequest();
    await page.getByLabel('Open by id').fill(retried.id);
    await page.keyboard.press('Enter');
    await page.getByText('1. down/careful').first().waitFor();
    await page.getByText('2. spare/careful').first().waitFor();
    await page.getByRole('row', { name: /Client is charged/ }).getByText('$' + retried.cost).waitFor();
    await go(page, '/console/exchanges/00000000-0000-0000-0000-000000000000');
    await page.getByRole('alert').getByText(/There is no request/).waitFor();
    await close(page);
  });

  test('every filter selects by what the API selects by', async () => {
    await translatedRequest();
    const ci = (await api('/keys?org=acme')).keys.find((k) => k.name === 'ci');
    const page = await open({ role: 'auditor', path: '/console/exchanges?range=1h' });
    const filters = [
      ['Model', 'translated', 'model=translated'], ['Target', 'spare/careful', 'target=spare/careful'], ['Key', ci.id, 'key=' + ci.id], ['Key', 'ci', 'key=ci'], ['Person', 'nobody', 'person=nobody'], ['Organisation', 'acme', 'org=acme'], ['Organisation', 'Acme Inc.', 'org=Acme Inc.'],
      ['Status', '502', 'status=502'], ['Cost at least, $', '0.005', 'min_cost=0.005'], ['Took at least, s', '0.02', 'min_took=0.02'], ['Tag', 'feature:import', 'tag=feature:import'], ['End user', 'nobody', 'user=nobody'],
      ['Fidelity', 'dropped', 'fidelity=dropped'], ['Outcome', 'failed', 'outcome=failed'],
    ];
    for (const [label, value, query] of filters) {
      await go(page, '/console/exchanges?range=1h');
      const field = page.getByLabel(label, { exact: true });
      if (['Fidelity', 'Outcome'].includes(label)) await field.selectOption(value);
      else {
        await field.fill(value);
        await page.keyboard.press('Enter');
      }
      const plain = (text) => decodeURIComponent(text.replaceAll('+', ' '));
      await page.waitForURL((url) => plain(url.search).includes(query));
      const call = (await page.locator('.source code').first().textContent()).replace(/^GET \/api\/v1/, '');
      assert.ok(plain(call).includes(query), call);
      const want = (await api(call, 'auditor')).requests.map((r) => '/console/exchanges/' + r.id);
      const all = (await api('/requests?limit=1000', 'auditor')).requests.length;
      assert.ok(want.length < all, label + ' selects all');
      const shown = () => page.locator('tbody tr td:first-child a').evaluateAll((list) => list.map((a) => a.getAttribute('href')));
      await until(label + ' shows ' + want.length + ' rows', async () => JSON.stringify(await shown()) === JSON.stringify(want));
    }
    await go(page, '/console/exchanges?range=1h&org=Acme%20Inc.');
    assert.ok((await page.locator('#' + await page.getByLabel('Team').getAttribute('list') + ' option').evaluateAll((l) => l.map((o) => o.value))).includes('Search'), 'no team is offered');
    await page.getByLabel('Team').fill('Serch');
    await page.keyboard.press('Enter');
    await page.getByRole('alert').getByText('did you mean').first().waitFor();
    await page.getByLabel('Team').fill('Search');
    await page.keyboard.press('Enter');
    await page.getByRole('table', { name: 'Exchanges' }).waitFor();
    await go(page, '/console/exchanges?min_cost=much');
    await page.getByRole('alert').getByText('min_cost').first().waitFor();
    await close(page);
  });

  test('an exchange shows who failed, when, what was lost and how the cost is computed', async () => {
    const id = await translatedRequest();
    const r = await api('/requests/' + id);
    const page = await open({ role: 'billing of acme', path: '/console/exchanges/' + id });
    const losses = page.getByRole('list', { name: 'Losses' });
    for (const code of ['logit_bias.unsupported', 'seed.unsupported']) await losses.getByText(code, { exact: true }).waitFor();
    assert.deepEqual(await losses.getByRole('listitem').allInnerTexts(), r.losses.map((l) => l.path + ' ' + l.code));
    for (const text of ['a-client/1.2', 'feature: import', `grep '"id":"${id}"'`]) await page.getByText(text).first().waitFor();

    // 20 tokens of $3, 100 of $0.30 and 3 of $15 for a million.
    await page.getByText('How the cost of attempt 1 is computed').click();
    const price = page.getByRole('table', { name: 'Price of attempt 1' });
    for (const text of ['20 tokens × $3 per million', '$0.00006', '100 tokens × $0.3 per million', '$0.00003', '3 tokens × $15 per million', '$0.000045']) await price.getByText(text, { exact: true }).waitFor();
    await price.getByRole('row', { name: /^Sum/ }).getByText('$0.000135').waitFor();
    assert.equal(r.attempts[0].cost, '0.000135');
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.getByRole('button', { name: 'Copy command' }).click();
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    const command = await page.evaluate(() => navigator.clipboard.readText());
    assert.ok(gateway.log.split('\n').some((line) => line.includes(/'(.*)'/.exec(command)[1])), 'the log has ' + command);

    const retried = await retriedRequest();
    await go(page, '/console/exchanges/' + retried.id);
    const [first, second] = retried.attempts;
    await page.getByRole('img', { name: /^Before the first attempt: / }).waitFor();
    await page.getByRole('img', { name: /^Attempt 1, down\/careful, begins after .*: until it failed / }).waitFor();
    await page.getByRole('img', { name: /^Attempt 2, spare\/careful, begins after .*: .*waiting for the first byte .*, receiving the rest / }).waitFor();
    await page.getByText('failed: ' + first.fault).waitFor();
    await page.getByText('The next target was tried.').waitFor();
    assert.ok(second.first_byte_seconds >= 0.02); // the upstream waits as long
    await close(page);
  });

  test('live exchanges appear without a reload', async () => {
    const page = await open({ role: 'owner', path: '/console/exchanges' });
    await page.getByLabel('Live').check();
    await page.getByLabel('Model').fill('smart');
    await page.keyboard.press('Enter');
    const newest = () => page.locator('tbody tr:first-child a').first().getAttribute('href');
    await page.waitForFunction(() => [...document.querySelectorAll('tbody tr td:nth-child(3)')].every((c) => c.textContent.startsWith('smart')));
    const old = await newest();
    await gateway.send(gateway.clients[1], 'smart');
    await page.waitForFunction((was) => document.querySelector('tbody tr a')?.getAttribute('href') !== was, old);
    await close(page);
  });
}
