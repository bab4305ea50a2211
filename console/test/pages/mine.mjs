// The page My usage of the client port: sign-in with a key and with the company account, own keys, how it looks.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api, browser, close, findViolations, gateway, shots } from '../kit.mjs';
import { evil, patience } from '../rig.mjs';

// visit opens the page in a browser of its own.
async function visit({ width = 1280, dark = false } = {}) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: dark ? 'dark' : 'light' });
  const page = await context.newPage();
  page.setDefaultTimeout(patience);
  page.errors = [];
  page.on('pageerror', (e) => page.errors.push(String(e)));
  page.on('dialog', (d) => { page.errors.push('dialog: ' + d.message()); void d.dismiss(); });
  page.on('console', (m) => { if (m.type() === 'error' && !/status of (4|5)\d\d|favicon/.test(m.text())) page.errors.push(m.text()); });
  await page.goto(gateway.url + '/my-usage');
  return page;
}

async function withKey(page, key) {
  await page.getByLabel('Key').fill(key);
  await page.getByRole('button', { name: 'Use this key' }).click();
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
}

async function withAccount(page) {
  await page.getByRole('button', { name: 'Sign in with the company account' }).click();
  await page.getByRole('heading', { name: 'My keys' }).waitFor();
}

const send = (key, model) => gateway.send(key, model);

export function tests() {
  test('a key shows what it has used, and nothing of another key', async () => {
    const [ci, notebooks] = gateway.clients;
    const page = await visit();
    await page.getByLabel('Key').fill('gw_live_wrong');
    await page.getByRole('button', { name: 'Use this key' }).click();
    await page.getByRole('alert').waitFor();
    await withKey(page, ci);
    const text = await page.locator('main').innerText();
    assert.match(text, /left of \$0\.05/);
    assert.match(text, /fast/);
    assert.ok(!text.includes('smart') && !text.includes('notebooks'), text);
    assert.equal(await page.getByRole('heading', { name: 'My keys' }).count(), 0);
    await page.reload();
    await page.getByRole('button', { name: 'Sign out' }).waitFor();
    const session = (await page.context().cookies()).find((c) => c.name.includes('usage'));
    assert.deepEqual([session.httpOnly, session.sameSite], [true, 'Strict']);
    assert.ok(!ci.includes(session.value));
    for (const path of ['/v1/models', '/v1/chat/completions']) { // the cookie opens no model
      assert.equal(await page.evaluate((to) => fetch(to, { method: to.endsWith('s') && to.includes('chat') ? 'POST' : 'GET' }).then((r) => r.status, () => 'refused by the policy'), path), 'refused by the policy');
      assert.equal((await fetch(gateway.url + path, { headers: { Cookie: session.name + '=' + session.value, 'Sec-Fetch-Site': 'same-origin' } })).status, 401);
    }
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByText('Your session has ended').waitFor();
    await page.getByRole('link', { name: 'Sign in' }).click();
    await withKey(page, notebooks);
    page.errors = page.errors.filter((e) => !/Content Security Policy|Refused to connect|violates/.test(e)); // of the attempts above
    await close(page);
  });

  test('a person creates, uses, rotates and revokes a key', async () => {
    const page = await visit();
    await withAccount(page);
    await page.getByLabel('Name of a new key').fill('for CI ' + evil);
    await page.getByLabel('Models').fill('fast');
    await page.getByLabel('Days').fill('7');
    await page.getByRole('button', { name: 'Create a key' }).click();
    const made = page.getByRole('status');
    await made.waitFor();
    const key = await made.locator('code').innerText();
    assert.match(key, /^gw_live_\w+$/);
    assert.equal(await send(key, 'fast'), 200);
    assert.equal(await send(key, 'smart'), 403);
    await page.goto(gateway.url + '/my-usage'); // the text is shown once
    assert.ok(!(await page.content()).includes(key));
    await page.getByRole('button', { name: /^Rotate for CI/ }).click();
    await made.waitFor();
    const next = await made.locator('code').innerText();
    assert.notEqual(next, key);
    assert.equal(await send(next, 'fast'), 200);
    await page.getByLabel('Name of a new key').fill('too wide');
    await page.getByLabel('Models').fill('*');
    await page.getByRole('button', { name: 'Create a key' }).click();
    await page.getByRole('alert').getByText('may not have the model').waitFor();
    await page.getByRole('button', { name: /^Revoke for CI/ }).click();
    await made.getByText('is revoked').waitFor();
    const listed = (await api('/keys?limit=1000')).keys.find((k) => k.name.startsWith('for CI'));
    assert.equal(listed.state, 'revoked');
    assert.match(listed.owner, /^person_/);
    await close(page);
  });

  for (const [width, dark] of [[1280, false], [1280, true], [768, false], [768, true], [390, false], [390, true]]) {
    const name = width + (dark ? '-dark' : '-light');
    test('My usage at ' + name + ' has no violation and fits', async () => {
      const page = await visit({ width, dark });
      const check = async (what) => {
        assert.deepEqual(await findViolations(page), [], what);
        assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false, what + ' is wider than the screen');
        await page.screenshot({ path: shots + 'mine-' + what + '-' + name + '.png', fullPage: true });
      };
      await check('sign-in');
      await withKey(page, gateway.clients[0]);
      await check('key');
      await page.getByRole('button', { name: 'Sign out' }).click();
      await page.getByRole('link', { name: 'Sign in' }).click();
      await withAccount(page);
      await check('account');
      await page.context().close();
    });
  }
}
