// Refused requests: on the key's page, the Overview, Exchanges and by request id.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api, close, gateway, go, open, settled, shots } from '../kit.mjs';
import { until } from '../rig.mjs';

export const screens = {
  'key-refused': async () => '/console/keys/' + (await refusedKey()).key,
  'exchange-refused': async () => '/console/exchanges/' + (await refusedKey()).id,
  'exchange-failed': async () => '/console/exchanges/' + (await failed()).id,
};

let made;

// refusedKey returns a key of which one request was served and 85 were refused, and the id of one of these.
async function refusedKey() {
  if (made) return made;
  const text = await gateway.createKey('--name', 'impatient', '--models', 'fast', '--org', 'acme', '--requests', '1');
  const body = { model: 'fast', messages: [{ role: 'user', content: 'The prompt is private.' }] };
  await until('the new key is known', async () => (await gateway.request(text, body)).status === 200);
  let id;
  for (let i = 0; i < 85; i++) {
    const answer = await gateway.request(text, body);
    assert.equal(answer.status, 429);
    id ??= answer.id;
  }
  const { id: key } = (await api('/keys?org=acme&limit=1000')).keys.find((k) => k.name === 'impatient');
  await until('the ledger has them', async () => {
    const { total } = await api('/usage?key=' + key);
    return total.requests === 1 && total.refused === 85 && (await api('/requests/' + id)).id;
  });
  return (made = { key, id, text });
}

let broken;

// failed returns a request of acme, which all readers may see, whose target has failed.
async function failed() {
  if (broken) return broken;
  const { id } = await gateway.request(gateway.clients[3], { model: 'broken', messages: [{ role: 'user', content: 'Hello' }] });
  await until('the ledger has the request', async () => (await api('/requests/' + id)).id);
  return (broken = { id });
}

export function tests() {
  test('refused requests are on the key, the Overview and Exchanges', async () => {
    const { key, id } = await refusedKey();
    const { total } = await api('/usage?key=' + key);
    assert.deepEqual([total.requests, total.refused, total.errors], [1, 85, 0]);
    const page = await open({ role: 'auditor', path: '/console/keys/' + key });
    await page.getByRole('table', { name: /Refused requests/ }).getByRole('row', { name: /limit/ }).getByText('85').waitFor();
    await page.getByRole('link', { name: 'limit', exact: true }).click();
    await page.waitForURL(/outcome=refused/);
    const table = page.getByRole('table', { name: 'Exchanges' });
    await table.getByText('limit: rate_limit_requests').first().waitFor();
    const rows = await table.locator('tbody tr').count();
    assert.ok(rows >= 10 && rows < 85, rows + ' of 85 requests are kept');
    await go(page, '/console/');
    await page.getByRole('table', { name: 'Refused requests' }).getByRole('row', { name: /impatient/ }).getByText('85').waitFor();
    const all = (await api('/usage')).total.refused; // also of the other tests
    await page.getByLabel('Sums').getByText(new RegExp('\\b' + all + ' refused')).waitFor();
    await go(page, '/console/exchanges');
    await page.getByLabel('Open by id').fill(id);
    await page.keyboard.press('Enter');
    await page.getByText('The client was told').waitFor();
    await page.getByText(/the limit of key:.* on requests is reached/).waitFor();
    await page.getByText('It would have passed with').waitFor();
    await page.getByText(/a higher limit on requests/).waitFor();
    assert.ok(!(await page.content()).includes('private'));
    await close(page);
  });

  test('its pages fit at 1280 and 390 pixels', async () => {
    const { key } = await refusedKey();
    for (const width of [1280, 390]) {
      const page = await open({ role: 'auditor', width, path: '/console/keys/' + key });
      const paths = { overview: '/console/', key: await screens['key-refused'](), list: '/console/exchanges?outcome=refused', refused: await screens['exchange-refused'](), failed: await screens['exchange-failed']() };
      for (const [name, path] of Object.entries(paths)) {
        await go(page, path);
        await settled(page);
        assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false, name + ' is wider than ' + width);
        await page.screenshot({ path: shots + 'refusals-' + name + '-' + width + '.png', fullPage: true });
      }
      await close(page);
    }
  });

  test('a failed exchange has the error that the client got, and no fidelity', async () => {
    const page = await open({ role: 'auditor', path: '/console/exchanges/' + (await failed()).id });
    await page.getByText('The client was told').waitFor();
    await page.getByText('The client got an error, not a response').waitFor();
    assert.equal(await page.getByText('the client the whole response').count(), 0);
    await close(page);
  });
}
