// Names and texts that would run as HTML.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allPages, api, close, gateway, go, open, settled } from '../kit.mjs';
import { evil, until } from '../rig.mjs';

export function tests() {
  test('names are text, never HTML', async () => {
    const page = await open({ role: 'owner' });
    const paths = await allPages();
    const odd = (await api('/keys')).keys.find((k) => k.name === evil);
    for (const path of [...Object.values(paths), '/console/keys/' + odd.id, '/console/models/' + encodeURIComponent(evil), '/console/exchanges?model=' + encodeURIComponent(evil), '/console/' + encodeURIComponent(evil)]) {
      await go(page, path);
      await settled(page);
      assert.equal(await page.locator('img').count(), 0, path);
    }
    await go(page, '/console/keys');
    await page.getByRole('link', { name: evil }).waitFor();
    await go(page, '/console/models');
    await page.getByRole('link', { name: evil }).click();
    await page.getByRole('heading', { name: evil, level: 1 }).waitFor();
    await page.getByRole('button', { name: 'Explain' }).click();
    await page.getByText('A request for ' + evil + ' goes to up/odd').waitFor();
    assert.equal(await page.locator('img').count(), 0);
    await page.keyboard.press('Control+k');
    await page.getByRole('option', { name: 'Overview' }).waitFor();
    assert.equal(await page.locator('img').count(), 0);
    await close(page);
  });

  // Everything that somebody else than the operator can name reaches the gateway as clients, upstreams,
  // identity providers and other operators send it, and must be on the page as text.
  test('what others name is text on every page: tags, users, agents, fields, tools, teams, people, errors', async () => {
    const mark = (what) => '<img/src=x/onerror=alert("' + what + '")>';
    const post = async (path, body) => {
      const response = await gateway.api(gateway.keys.owner, path, { method: 'POST', body: JSON.stringify(body) });
      assert.equal(response.status, 201, await response.text());
    };
    await post('/orgs', { id: 'odd', name: mark('org') });
    await post('/orgs/odd/teams', { id: 'odd', name: mark('team') });
    const key = await gateway.createKey('--name', mark('key'), '--models', '*', '--org', 'odd', '--team', 'odd');
    await until('the new key is known', async () => (await gateway.send(key, 'fast')) === 200);
    const body = {
      model: 'translated', messages: [{ role: 'user', content: mark('text') }], user: mark('user'), [mark('field')]: { [mark('inner')]: 1 },
      tools: [{ type: 'function', function: { name: mark('tool'), parameters: { type: 'object', [mark('schema')]: true } } }], logit_bias: { [mark('bias')]: 1 },
    };
    const sent = await gateway.request(key, body, { 'User-Agent': mark('agent'), 'Isogloss-Tags': 'feature=' + mark('tag') });
    const failed = await gateway.request(key, { ...body, model: 'broken' }, { 'User-Agent': mark('agent') });
    await gateway.request(key, { ...body, model: mark('model') });
    await gateway.api(gateway.keys['key-manager'], '/keys/' + encodeURIComponent(mark('path')));
    await gateway.api(gateway.keys['key-manager'], '/config?' + encodeURIComponent(mark('query')));
    gateway.provider.sub = mark('person');
    gateway.provider.email = mark('person') + '@example.com';
    const person = await open();
    await person.getByRole('link', { name: 'Sign in' }).click();
    await person.getByRole('link', { name: 'console' }).click();
    await person.getByText(mark('person')).first().waitFor();
    await close(person);
    Object.assign(gateway.provider, { sub: 'ann', email: 'ann@example.com' });
    const recorded = await (async () => {
      let request;
      await until('the ledger has the request', async () => { request = await api('/requests/' + sent.id); return request.id; });
      return request;
    })();
    assert.equal(recorded.user_agent, mark('agent'));
    assert.ok(recorded.losses.some((l) => l.path.includes(mark('field').slice(0, 20))), JSON.stringify(recorded.losses));

    const page = await open({ role: 'owner' });
    const listed = await api('/keys');
    const oddKey = listed.keys.find((k) => k.name === mark('key'));
    const paths = {
      ...await allPages(), sent: '/console/exchanges/' + sent.id, failed: '/console/exchanges/' + failed.id, 'odd key': '/console/keys/' + oddKey.id, 'by tag': '/console/usage?by=tag:feature', 'by user': '/console/usage?by=user',
      live: '/console/exchanges?live=1', broken: '/console/models/broken', filters: '/console/exchanges?' + ['model', 'target', 'key', 'org', 'person', 'team', 'outcome', 'fidelity'].map((n) => n + '=' + encodeURIComponent(mark(n))).join('&'),
    };
    const seen = {};
    for (const [what, path] of Object.entries(paths)) {
      await go(page, path);
      await settled(page);
      await page.waitForLoadState('networkidle');
      if (what === 'teams') { // a section is read when it is near the screen
        await page.getByRole('region', { name: 'Organisation odd' }).scrollIntoViewIfNeeded();
        await page.getByText(mark('team')).first().waitFor();
      }
      assert.equal(await page.locator('img').count(), 0, what);
      seen[what] = await page.getByRole('main').innerText();
    }
    for (const [what, mine] of [['sent', 'agent'], ['sent', 'tag'], ['sent', 'user'], ['sent', 'key'], ['odd key', 'key'], ['teams', 'org'], ['teams', 'team'], ['keys', 'person'], ['keys', 'key']]) {
      assert.ok(seen[what].includes(mark(mine)), what + ' does not show the ' + mine + ': ' + seen[what]);
    }
    await page.keyboard.press('Control+k');
    await page.keyboard.type('onerror');
    await page.getByRole('option').filter({ hasText: mark('key') }).waitFor();
    assert.equal(await page.locator('img').count(), 0);
    await close(page);
  });
}
