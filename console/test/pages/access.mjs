// Sign-in, sessions, frames and paths.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { api, browser, close, gateway, open } from '../kit.mjs';
import { until } from '../rig.mjs';

export function tests() {
  test('a wrong key is refused, a right one begins a session that a reload keeps, and the key is kept nowhere', async () => {
    const page = await open();
    await page.getByLabel("Operator's key").fill('gw_admin_wrong');
    await page.getByRole('button', { name: 'Use this key' }).click();
    await page.getByRole('alert').waitFor();
    await page.getByLabel("Operator's key").fill(gateway.keys.owner);
    await page.getByRole('button', { name: 'Use this key' }).click();
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    assert.equal(await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }) + document.cookie), '{}');
    const cookies = await page.context().cookies();
    const session = cookies.find((c) => c.name.includes('session'));
    assert.deepEqual([session.httpOnly, session.sameSite, Math.round((session.expires - Date.now() / 1000) / 3600)], [true, 'Strict', 12]);
    assert.ok(!JSON.stringify(cookies).includes(gateway.keys.owner.split('_')[3].slice(0, 20)));
    const requests = [];
    page.on('request', (r) => { if (r.url().includes('/api/')) requests.push(r.allHeaders()); });
    await page.reload();
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    assert.deepEqual((await Promise.all(requests)).filter((h) => h.authorization), []);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByText('Your session has ended').waitFor();
    const stolen = await fetch(gateway.admin + '/api/v1/whoami', { headers: { Cookie: session.name + '=' + session.value, 'Sec-Fetch-Site': 'same-origin' } });
    assert.equal(stolen.status, 401);
    await page.getByRole('link', { name: 'Sign in' }).click();
    await close(page);
  });

  test('the memory of the page has no key after the sign-in', async () => {
    const page = await open({ role: 'owner' });
    const client = await page.context().newCDPSession(page);
    const heap = async () => {
      const parts = [];
      client.on('HeapProfiler.addHeapSnapshotChunk', ({ chunk }) => parts.push(chunk));
      await client.send('HeapProfiler.collectGarbage');
      await client.send('HeapProfiler.takeHeapSnapshot', { reportProgress: false });
      client.removeAllListeners('HeapProfiler.addHeapSnapshotChunk');
      return parts.join('');
    };
    await page.evaluate((text) => { globalThis.canary = text; }, 'canary-' + Date.now());
    assert.ok((await heap()).includes('canary-')); // a snapshot has the texts of the page
    const secret = gateway.keys.owner.slice(-45);
    assert.ok(!(await heap()).includes(secret), 'the memory of the page has the key');
    await close(page);
  });

  test('a session ends with its key', async () => {
    const key = await gateway.createKey('--role', 'auditor', '--name', 'short-lived');
    const page = await open();
    await page.getByLabel("Operator's key").fill(key);
    await page.getByRole('button', { name: 'Use this key' }).click();
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    const revoked = await fetch(gateway.admin + '/api/v1/keys/' + key.split('_')[2] + '/revoke', { method: 'POST', headers: { Authorization: 'Bearer ' + gateway.keys.owner } });
    assert.equal(revoked.status, 200);
    await page.getByText('this API key was revoked').first().waitFor(); // without a reload
    await page.getByLabel("Operator's key").waitFor();
    await page.reload();
    await page.getByLabel("Operator's key").waitFor();
    await close(page);
  });

  test('a person signs in at the identity provider, gets the role of the rules, and signs out', async () => {
    const page = await open();
    await page.getByRole('link', { name: 'Sign in' }).click();
    await page.getByRole('link', { name: 'console' }).click();
    await page.getByText('ann@example.com').waitFor();
    await page.getByText('key-manager of acme').waitFor();
    await page.reload(); // the session stays
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    assert.equal(await page.evaluate(() => document.cookie), ''); // scripts cannot read it
    await page.getByRole('link', { name: 'Keys and people' }).click();
    await page.getByRole('button', { name: 'Create a key' }).click();
    await page.getByRole('dialog').getByLabel('Name').fill('of a session');
    await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click();
    await page.getByText('Copy the key now').waitFor();
    await page.getByRole('button', { name: 'Done' }).click();
    const session = (await page.context().cookies()).find((c) => c.name.includes('session'));
    assert.equal(session.sameSite, 'Strict');
    const stolen = await fetch(gateway.admin + '/api/v1/keys', { headers: { Cookie: session.name + '=' + session.value, 'Sec-Fetch-Site': 'cross-site' } });
    assert.equal(stolen.status, 403); // a page of another site
    await page.getByRole('link', { name: 'ann@example.com' }).click();
    await page.getByText('signs in at the identity provider').waitFor();
    assert.equal(await page.getByRole('button', { name: 'Rotate' }).count(), 0);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByText('Your session has ended').waitFor();
    await page.goto(gateway.admin + '/');
    await page.getByLabel("Operator's key").waitFor();
    await close(page);
  });

  // Another port of the same host is another origin of the same site: the browser sends the cookie there,
  // whatever SameSite says. localhost is another site.
  for (const host of ['127.0.0.1', 'localhost']) {
    test('a page of ' + host + ' cannot use the session of an operator', async (t) => {
      const page = await open();
      await page.getByRole('link', { name: 'Sign in' }).click();
      await page.getByRole('link', { name: 'console' }).click();
      await page.getByText('ann@example.com').waitFor();
      const before = (await api('/keys?limit=1000')).keys.length;
      const body = JSON.stringify({ name: 'forged', org: 'acme', models: ['*'] });
      const site = createServer((_, res) => res.setHeader('Content-Type', 'text/html').end(`<form method="post" enctype="text/plain" action="${gateway.admin}/api/v1/keys" target="inner"><input name='${body.slice(0, -1)}, "x": "' value='"}'></form>
        <form method="post" action="${gateway.admin}/logout" target="inner"></form><iframe name="inner"></iframe>`));
      await new Promise((done) => site.listen(0, '127.0.0.1', done));
      t.after(() => site.close());
      const foreign = await page.context().newPage();
      const statuses = [];
      foreign.on('response', (r) => { if (r.url().startsWith(gateway.admin)) statuses.push(r.request().method() + ' ' + r.status()); });
      await foreign.goto('http://' + host + ':' + site.address().port);
      for (const form of [0, 1]) {
        const known = statuses.length;
        let sent = 0;
        await until(() => 'form ' + form + ' is answered: ' + statuses.join(', '), async () => { // a busy browser may drop a navigation of the frame
          if (statuses.length === known && Date.now() - sent > 10_000) {
            sent = Date.now();
            await foreign.evaluate((n) => document.forms[n].submit(), form);
          }
          return statuses.length > known;
        });
      }
      const results = await foreign.evaluate(async ({ admin, body }) => {
        const attempt = (path, init) => fetch(admin + path, { credentials: 'include', ...init }).then((r) => r.text(), () => 'refused');
        return Promise.all([
          attempt('/api/v1/keys'), attempt('/api/v1/whoami', { headers: { Accept: 'text/html' } }),
          attempt('/api/v1/keys', { method: 'POST', body, headers: { 'Content-Type': 'application/json' } }),
          attempt('/api/v1/keys', { method: 'POST', body, headers: { 'Content-Type': 'text/plain' } }),
          attempt('/api/v1/keys', { method: 'POST', body, mode: 'no-cors' }),
          attempt('/api/v1/config/reload', { method: 'POST', mode: 'no-cors' }),
        ]);
      }, { admin: gateway.admin, body });
      await until('the requests are answered', async () => statuses.length >= 4);
      assert.deepEqual([...new Set(results.slice(0, 4))], ['refused']); // nothing can be read
      assert.deepEqual(results.slice(4), ['', '']); // opaque
      assert.ok(statuses.length >= 4 && statuses.every((s) => / (403|401|415)$/.test(s) || s === 'OPTIONS 405' || s === 'OPTIONS 404'), statuses.join(', '));
      assert.equal((await api('/keys?limit=1000')).keys.length, before);
      await page.reload(); // the session still works
      await page.getByText('ann@example.com').waitFor();
      await close(page);
    });
  }

  test('another site cannot show the console in a frame', async (t) => {
    const response = await fetch(gateway.admin + '/');
    assert.equal(response.headers.get('x-frame-options'), 'DENY');
    assert.match(response.headers.get('content-security-policy'), /frame-ancestors 'none'/);
    const paths = ['/', '/console/keys', '/login'];
    const site = createServer((_, res) => res.setHeader('Content-Type', 'text/html').end(paths.map((p) => `<iframe src="${gateway.admin}${p}"></iframe><object data="${gateway.admin}${p}"></object>`).join('')));
    await new Promise((done) => site.listen(0, '127.0.0.1', done));
    t.after(() => site.close());
    const page = await (await browser.newContext()).newPage();
    await page.goto('http://127.0.0.1:' + site.address().port);
    await page.waitForTimeout(300);
    const shown = page.frames().slice(1).map((f) => f.url()).filter((url) => url && !url.startsWith('chrome-error:') && url !== 'about:blank');
    assert.deepEqual(shown, []);
    assert.ok(page.frames().length > paths.length);
    await page.context().close();
  });

  test('paths of the API and of metrics are not pages', async () => {
    for (const [path, type] of [['/api/v1/nothing', 'application/problem+json'], ['/metrics', 'text/plain'], ['/nothing', 'text/plain']]) {
      const response = await fetch(gateway.admin + path);
      assert.ok(response.headers.get('content-type').startsWith(type), path + ': ' + response.headers.get('content-type'));
    }
  });
}
