import assert from 'node:assert/strict';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { after, before, describe, test } from 'node:test';
import { evil, Gateway, openBrowser, until } from './rig.mjs';

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const shots = new URL('../shots/', import.meta.url).pathname;

let gateway, browser;
before(async () => {
  await rm(shots, { recursive: true, force: true });
  await mkdir(shots, { recursive: true });
  gateway = await Gateway.start();
  await gateway.fill();
  browser = await openBrowser();
}, { timeout: 120_000 });
after(async () => {
  await browser?.close();
  await gateway?.stop();
});

// open returns a page of the console. What the browser reports as an error fails the test.
async function open({ path = '/', dark = false, width = 1280, role, from = gateway } = {}) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: dark ? 'dark' : 'light', acceptDownloads: true, timezoneId: 'Europe/Paris', locale: 'en-GB' });
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  page.errors = [];
  page.on('pageerror', (e) => page.errors.push(String(e)));
  page.on('dialog', (d) => { page.errors.push('dialog: ' + d.message()); void d.dismiss(); });
  page.on('console', (m) => { if (m.type() === 'error' && !/status of (4|5)\d\d/.test(m.text())) page.errors.push(m.text()); });
  page.on('request', (r) => { if (!r.url().startsWith(from.admin) && !r.url().startsWith(from.provider.url) && !/^(data|blob):/.test(r.url())) page.errors.push('request to ' + r.url()); });
  await page.goto(from.admin + path);
  if (role) {
    await page.getByLabel("Operator's key").fill(gateway.keys[role]);
    await page.getByRole('button', { name: 'Use this key' }).click();
    await page.getByRole('main').getByRole('heading', { level: 1 }).waitFor();
  }
  return page;
}

async function close(page) {
  await page.context().close();
  assert.deepEqual(page.errors, []);
}

// go opens another page of the console, as a link does. A reload would forget the key.
const go = (page, path) => page.evaluate((to) => { history.pushState(null, '', to); dispatchEvent(new PopStateEvent('popstate')); }, path);

const settled = (page) => page.waitForFunction(() => !document.querySelector('.loading'));

async function findViolations(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  return violations.flatMap((v) => v.nodes.map((n) => v.id + ': ' + n.target.join(' ') + ' ' + n.failureSummary));
}

const api = async (path, role = 'owner') => (await gateway.api(gateway.keys[role], path)).json();
const retriedRequest = async () => (await api('/requests?model=careful&limit=1000')).requests.find((r) => r.attempts.length > 1);

async function allPages() {
  const retried = await retriedRequest();
  const ci = (await api('/keys')).keys.find((k) => k.name === 'ci');
  return {
    overview: '/', exchanges: '/console/exchanges', exchange: '/console/exchanges/' + retried.id, translate: '/console/translate', 'translate-stream': '/console/translate?from=openai-chat&kind=stream', models: '/console/models', model: '/console/models/careful', usage: '/console/usage?by=model&then=key', keys: '/console/keys', key: '/console/keys/' + ci.id,
    teams: '/console/teams', config: '/console/config', audit: '/console/audit', missing: '/console/nothing',
  };
}

describe('the console', { timeout: 600_000 }, () => {
  for (const [width, dark] of [[1280, false], [1280, true], [375, false], [375, true]]) {
    const name = width + (dark ? '-dark' : '-light');
    test('every page at ' + name + ' has no violation and fits', async () => {
      const page = await open({ width, dark });
      const check = async (what) => {
        await settled(page);
        await page.waitForTimeout(150); // charts draw in the next frame
        assert.deepEqual(await findViolations(page), [], what);
        assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false, what + ' is wider than the screen');
        const height = Math.min(2400, await page.evaluate(() => document.documentElement.scrollHeight));
        await page.screenshot({ path: shots + what + '-' + name + '.png', fullPage: true, clip: { x: 0, y: 0, width, height } });
      };
      await check('sign-in');
      await page.getByLabel("Operator's key").fill(gateway.keys.owner);
      await page.getByRole('button', { name: 'Use this key' }).click();
      await page.getByRole('heading', { name: 'Overview' }).waitFor();
      for (const [what, path] of Object.entries(await allPages())) {
        await go(page, path);
        await check(what);
      }
      await go(page, '/console/models/shared');
      await page.getByLabel('Request body').fill('{"model":"shared","seed":1,"logit_bias":{"1":2},"messages":[{"role":"user","content":"Hello"}]}');
      await page.getByRole('button', { name: 'Explain' }).click();
      await page.getByText('A request for shared goes to').waitFor();
      await page.evaluate(() => scrollTo(0, 0));
      await check('explain');
      await go(page, '/console/keys?new=1');
      await page.getByRole('dialog').waitFor();
      await check('create-key');
      await page.keyboard.press('Escape');
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      await page.keyboard.press('Control+k');
      await page.getByRole('combobox', { name: 'Page, key' }).waitFor();
      await check('palette');
      await close(page);
    });
  }

  test('a wrong key is refused, a right one is forgotten by a reload', async () => {
    const page = await open();
    await page.getByLabel("Operator's key").fill('gw_admin_wrong');
    await page.getByRole('button', { name: 'Use this key' }).click();
    await page.getByRole('alert').waitFor();
    await page.getByLabel("Operator's key").fill(gateway.keys.owner);
    await page.getByRole('button', { name: 'Use this key' }).click();
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    assert.equal(await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }) + document.cookie), '{}');
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

  test('another site cannot show the console in a frame', async () => {
    const response = await fetch(gateway.admin + '/');
    assert.equal(response.headers.get('x-frame-options'), 'DENY');
    assert.match(response.headers.get('content-security-policy'), /frame-ancestors 'none'/);
    const site = createServer((_, res) => res.setHeader('Content-Type', 'text/html').end(`<iframe src="${gateway.admin}/"></iframe>`));
    await new Promise((done) => site.listen(0, '127.0.0.1', done));
    const page = await (await browser.newContext()).newPage();
    await page.goto('http://127.0.0.1:' + site.address().port);
    await page.waitForTimeout(300);
    assert.match(page.frames()[1].url(), /^chrome-error:/);
    await page.context().close();
    site.close();
  });

  test('paths of the API and of metrics are not pages', async () => {
    for (const [path, type] of [['/api/v1/nothing', 'application/problem+json'], ['/metrics', 'text/plain'], ['/nothing', 'text/plain']]) {
      const response = await fetch(gateway.admin + path);
      assert.ok(response.headers.get('content-type').startsWith(type), path + ': ' + response.headers.get('content-type'));
    }
  });

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

  test('the models show their routes, the state of targets and what would happen to a request', async () => {
    const careful = async () => (await api('/models')).models.find((m) => m.model === 'careful');
    await until('the first target is ejected', async () => {
      await gateway.send(gateway.clients[2], 'careful');
      return (await careful()).targets[0].until;
    });
    const page = await open({ role: 'auditor', path: '/console/models' });
    const row = page.getByRole('table', { name: 'Models' }).getByRole('row').filter({ hasText: 'careful' });
    await row.getByText('down/careful').waitFor();
    assert.notEqual(await row.locator('.badge').innerText(), 'ready');
    await page.getByLabel('Model or target').fill('shared');
    await page.getByRole('link', { name: 'careful' }).waitFor({ state: 'detached' });
    await page.getByLabel('Model or target').fill('no such name');
    await page.getByText('No model has this name').waitFor();
    await page.getByLabel('Model or target').fill('care');
    await page.getByRole('link', { name: 'careful' }).click();

    await page.getByRole('heading', { name: 'careful', level: 1 }).waitFor();
    const want = await careful();
    assert.equal(want.balance, 'order');
    const down = want.targets[0];
    assert.ok(down.until && down.last_error, JSON.stringify(down));
    await page.getByRole('img', { name: 'Route of careful, policy order, to down/careful (first, ' + down.state + '), spare/careful (fallback 1, ready)' }).waitFor();
    const target = page.getByRole('table', { name: 'Targets' }).getByRole('row').filter({ hasText: 'down/careful' });
    await target.getByText(down.state, { exact: true }).waitFor();
    await target.getByText(down.last_error).waitFor();
    await target.locator('time').first().waitFor();

    // A pasted request: which target, why, what would be lost, what it could cost.
    await page.getByRole('button', { name: 'Explain' }).click();
    await page.getByText('A request for careful goes to spare/careful').waitFor();
    await page.getByText('Tried as number 2, if those before it fail. Not earlier: ' + down.state).waitFor();
    const request = { model: 'shared', max_tokens: 50, logit_bias: { 1: 2 }, messages: [{ role: 'user', content: 'Hello' }], user: null };
    await page.getByLabel('Request body').fill(JSON.stringify(request));
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.getByText('A request for shared goes to').waitFor();
    const lost = page.getByRole('list', { name: 'Explained targets' }).getByRole('listitem').filter({ has: page.getByRole('heading', { name: 'other/shared' }) });
    await lost.getByText('To anthropic.').waitFor();
    await lost.getByText('logit_bias', { exact: true }).waitFor();
    await lost.getByText('not known').waitFor();
    await page.getByLabel('Request body').fill(JSON.stringify({ ...request, model: 'smart' }));
    await page.getByRole('button', { name: 'Explain' }).click();
    await page.getByText('A request for smart goes to up/smart-2').waitFor();
    const answer = await (await gateway.api(gateway.keys.auditor, '/explain', { method: 'POST', body: JSON.stringify({ dialect: 'openai-chat', request: JSON.stringify({ ...request, model: 'smart' }) }) })).json();
    const cost = Number(answer.targets[0].max_cost);
    assert.equal(cost, (answer.max_prompt_tokens * 3 + 50 * 15) / 1e6);
    await page.getByText('up to $' + Number(cost.toPrecision(3))).waitFor();
    await page.getByText('Nothing of the request.').waitFor();
    await page.getByLabel('Request body').fill('{"model":');
    await page.getByRole('button', { name: 'Explain' }).click();
    await page.getByRole('alert').waitFor();
    assert.deepEqual(await findViolations(page), []);

    await go(page, '/console/models/nothing');
    await page.getByText('No model has this name').waitFor();
    await page.keyboard.press('Control+k');
    await page.keyboard.type('explain');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Explain a request' }).waitFor();
    await page.keyboard.press('Control+k');
    await page.keyboard.type('shared');
    await page.getByRole('option', { name: 'shared' }).waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('img', { name: /policy weight, to up\/shared \(75 %, .*other\/shared \(25 %/ }).waitFor();
    await close(page);
  });

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

  test('a team is created, gets a budget and is blocked', async () => {
    const page = await open({ role: 'admin', path: '/console/teams' });
    const acme = page.getByRole('region', { name: 'Organisation acme' });
    await acme.getByRole('button', { name: 'Create a team' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Id').fill('ops');
    await dialog.getByLabel('Name').fill('Operations');
    await dialog.getByRole('button', { name: 'Create' }).click();
    await acme.getByRole('heading', { name: 'ops' }).waitFor();
    await acme.getByRole('button', { name: 'Set budget of team ops' }).click();
    await dialog.getByLabel('Budget in dollars').fill('not a number');
    await dialog.getByRole('button', { name: 'Save' }).click();
    assert.equal(await dialog.getByLabel('Budget in dollars').evaluate((e) => e.validity.patternMismatch), true);
    await dialog.getByLabel('Budget in dollars').fill('30');
    await dialog.getByLabel('In every').selectOption('86400');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await acme.getByText('of $30.00 in the last day').waitFor();
    await acme.getByRole('button', { name: 'Block team ops' }).click();
    await dialog.getByRole('button', { name: 'Block' }).click();
    await acme.getByRole('button', { name: 'Unblock team ops' }).waitFor();
    assert.equal((await api('/orgs/acme/teams/ops')).blocked, true);
    await acme.getByRole('button', { name: 'Unblock team ops' }).click();
    await dialog.getByRole('button', { name: 'Unblock' }).click();
    await acme.getByRole('button', { name: 'Block team ops', exact: true }).waitFor();
    await close(page);
  });

  test('a body is translated to the other dialects, with its losses', async () => {
    const page = await open({ role: 'billing', path: '/console/translate' });
    const output = (name) => page.getByRole('region', { name, exact: true });
    for (const name of ['Chat Completions', 'Responses', 'Gemini']) await output(name).waitFor();
    assert.equal(await output('Messages').count(), 0);
    const chat = output('Chat Completions');
    await chat.getByRole('listitem').filter({ hasText: 'top_k' }).getByText('dropped').waitFor();
    await page.getByRole('region', { name: 'Input with losses' }).getByText('← dropped (top_k.unsupported) for Chat Completions, Responses').waitFor();
    assert.ok((await chat.locator('mark').allInnerTexts()).includes('"function"')); // the input does not have it
    assert.ok(!(await chat.locator('mark').allInnerTexts()).includes('"get_weather"'));
    assert.ok((await chat.locator('pre .renamed').allInnerTexts()).includes('"tool_calls"'));

    // The command and the API call give the same.
    await chat.getByText('Command', { exact: true }).click();
    const args = (await chat.locator('.source-call code').innerText()).split(' ');
    assert.deepEqual([args[0], args.at(-1)], ['isogloss', 'request.json']);
    const input = await page.getByLabel('Messages request').first().inputValue();
    const { stdout } = await gateway.command([...args.slice(1, -1)], input);
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await chat.getByRole('button', { name: 'Copy', exact: true }).click();
    await chat.getByRole('button', { name: 'Copied' }).waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), stdout.trimEnd());

    // Another dialect and kind bring their example; a text that was typed stays.
    await page.getByLabel('Dialect').selectOption('gemini');
    await output('Messages').waitFor();
    await page.getByLabel('Kind').selectOption('stream');
    await output('Responses').getByText('response.completed').first().waitFor();
    assert.match(page.url(), /from=gemini&kind=stream/);
    const text = page.locator('textarea');
    await text.fill('data: {"candidates":[{"content":{"parts":[{"text":"cut');
    await page.getByText('that can be translated').or(output('Messages').getByText('error').first()).waitFor();
    await page.getByLabel('Kind').selectOption('request');
    await page.getByRole('alert').getByText('This is no Gemini request').waitFor();
    await page.getByRole('button', { name: 'Clear' }).click();
    await page.getByText('Nothing to translate').waitFor();
    await page.getByRole('button', { name: 'Example' }).click();
    await output('Messages').waitFor();
    await text.fill('{"contents":[{"role":"user","parts":[{"text":"' + 'x'.repeat(1 << 20) + '"}]}]}');
    await page.getByRole('alert').getByText('larger than 1048576 bytes').waitFor();
    await close(page);
  });

  test('a request that a dialect refuses says so, and the model decides about its rules', async () => {
    const page = await open({ role: 'owner', path: '/console/translate?from=openai-chat' });
    await page.locator('textarea').fill(JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'x' }], modalities: ['text', 'audio'], audio: { voice: 'alloy', format: 'wav' } }));
    await page.getByRole('region', { name: 'Messages', exact: true }).getByText('refused').first().waitFor();
    await page.getByRole('button', { name: 'Example' }).click();
    await page.getByLabel('Model at the upstream').fill('claude-sonnet-4-5');
    await page.getByRole('region', { name: 'Messages request' }).getByText('"claude-sonnet-4-5"').waitFor();
    await close(page);
  });

  test('a long history is translated, and shown in part', async () => {
    const page = await open({ role: 'owner', path: '/console/translate?from=openai-chat' });
    const messages = Array.from({ length: 1000 }, (_, i) => ({ role: i % 2 ? 'assistant' : 'user', name: 'ann', content: 'word '.repeat(40) + i }));
    await page.locator('textarea').fill(JSON.stringify({ model: 'm', messages }));
    await page.getByRole('region', { name: 'Gemini', exact: true }).getByText('further lines are not shown').waitFor();
    await page.getByRole('region', { name: 'Gemini', exact: true }).getByText('further losses are not shown').waitFor();
    await page.getByRole('button', { name: 'Clear' }).click();
    await page.getByText('Nothing to translate').waitFor();
    await close(page);
  });

  test('the text to translate is never HTML', async () => {
    const page = await open({ role: 'owner', path: '/console/translate?from=openai-chat' });
    const bodies = [
      JSON.stringify({ model: evil, [evil]: evil, messages: [{ role: 'user', name: evil, content: evil }], tools: [{ type: 'function', function: { name: 'f', description: evil } }], seed: 1 }),
      evil, '{"model":"' + evil, JSON.stringify({ [evil]: { [evil]: [evil] } }), JSON.stringify({ model: 'm', messages: evil }),
    ];
    for (const body of bodies) {
      const waiting = page.waitForResponse((r) => r.url().endsWith('/translate'));
      await page.locator('textarea').fill(body);
      await waiting;
      await page.waitForTimeout(100);
      assert.equal(await page.locator('img').count(), 0, body);
    }
    for (const from of [evil, 'nothing']) {
      await go(page, '/console/translate?model=' + encodeURIComponent(evil) + '&kind=' + encodeURIComponent(evil) + '&from=' + encodeURIComponent(from));
      await settled(page);
      assert.equal(await page.locator('img').count(), 0);
    }
    await close(page);
  });

  test('a text is translated by keyboard alone', async () => {
    const page = await open({ role: 'key-manager' });
    await page.keyboard.press('Control+k');
    await page.keyboard.type('transl');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Translate' }).waitFor();
    await page.getByLabel('Dialect').focus();
    await page.keyboard.type('Gem');
    await page.getByRole('region', { name: 'Messages', exact: true }).waitFor();
    for (let i = 0; i < 3; i++) await page.keyboard.press('Tab');
    assert.equal(await page.evaluate(() => document.activeElement.tagName), 'TEXTAREA');
    await close(page);
  });

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

  test('a reload shows the mistakes of the file with their lines', async () => {
    const page = await open({ role: 'owner', path: '/console/config' });
    const reload = page.getByRole('button', { name: 'Reload the file' });
    await writeFile(gateway.config, gateway.text + 'surprise: 1\n');
    await reload.click();
    const line = gateway.text.split('\n').length;
    await page.getByRole('alert').getByText('line ' + line).waitFor();
    await page.getByRole('alert').getByText('surprise').first().waitFor();
    await writeFile(gateway.config, gateway.text);
    await reload.click();
    await page.getByText('is in effect').waitFor();
    assert.equal(await page.getByText('sk-scripted').count(), 0);
    await close(page);
  });

  test('the audit log is filtered and verified', async () => {
    const page = await open({ role: 'auditor', path: '/console/audit' });
    await page.getByLabel('Operation').fill('create-team');
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => {
      const rows = [...document.querySelectorAll('tbody tr td:nth-child(3)')];
      return rows.length > 0 && rows.every((c) => c.textContent === 'create-team');
    });
    await page.getByRole('button', { name: 'Verify the chain' }).click();
    await page.getByText(/All \d+ entries are valid/).waitFor();
    await close(page);
  });

  // What each role is offered. The API refuses the rest, which the tests of the API show.
  const offers = {
    owner: { pages: 9, models: ['Explain a request'], keys: ['Create a key'], key: ['Change', 'Set budget', 'Rotate', 'Revoke'], teams: ['Create an organisation', 'Create a team', 'Set budget', 'Change', 'Block'], config: ['Reload the file'] },
    admin: { pages: 9, models: ['Explain a request'], keys: ['Create a key'], key: ['Change', 'Set budget', 'Rotate', 'Revoke'], teams: ['Create an organisation', 'Create a team', 'Set budget', 'Change', 'Block'], config: ['Reload the file'] },
    auditor: { pages: 9, models: ['Explain a request'], keys: [], key: [], teams: [], config: [] },
    billing: { pages: 6, keys: [], key: ['Set budget'], teams: ['Set budget'] },
    'key-manager': { pages: 4, keys: ['Create a key'], key: ['Change', 'Rotate', 'Revoke'], teams: ['Create a team', 'Change', 'Block'] },
  };
  const always = /^(|Copy.*|Show more|Menu|Go to….*|Sign out|Verify the chain)$/;
  for (const [role, offer] of Object.entries(offers)) {
    test('the role ' + role + ' is offered what it may do', async () => {
      const page = await open({ role });
      await settled(page);
      assert.equal(await page.getByRole('navigation').getByRole('link').count(), offer.pages);
      const paths = await allPages();
      for (const what of ['models', 'keys', 'key', 'teams', 'config', 'translate']) {
        await go(page, paths[what]);
        await page.waitForFunction(() => document.querySelector('main h1, main .empty'));
        await settled(page);
        if (what === 'translate') { // concerns no data: for every role
          await page.getByRole('region', { name: 'Gemini', exact: true }).waitFor();
          continue;
        }
        if (!offer[what]) {
          await page.getByText('may not see this page').waitFor();
          continue;
        }
        const names = await page.locator('main button').allInnerTexts();
        assert.deepEqual([...new Set(names.filter((n) => !always.test(n)))].sort(), [...offer[what]].sort(), what);
      }
      await close(page);
    });
  }

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

  test('the palette opens pages and keys by keyboard', async () => {
    const page = await open({ role: 'owner' });
    await page.keyboard.press('Control+k');
    await page.keyboard.type('aud');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Audit' }).waitFor();
    await page.keyboard.press('Control+k');
    await page.keyboard.type('notebooks');
    await page.getByRole('option', { name: 'notebooks' }).waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'notebooks' }).waitFor();
    await page.keyboard.press('Control+k');
    await page.keyboard.type('theme: dark');
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => getComputedStyle(document.body).backgroundColor === 'rgb(20, 24, 26)');
    await close(page);
  });

  test('times are in the zone of the viewer, with UTC on hover', async () => {
    const page = await open({ role: 'owner', path: '/console/config' });
    const time = page.locator('main time').first();
    const at = new Date(await time.getAttribute('datetime'));
    assert.equal(await time.getAttribute('title'), at.toISOString().slice(0, 19).replace('T', ' ') + ' UTC');
    const paris = at.toLocaleTimeString('en-GB', { timeZone: 'Europe/Paris' });
    assert.ok((await time.innerText()).includes(paris));
    await close(page);
  });

  test('without a store the console shows models and says what is missing', async () => {
    const bare = await Gateway.start({ store: false });
    try {
      for (const [width, dark] of [[1280, false], [375, true]]) {
        const page = await open({ from: bare, width, dark });
        await page.getByText('This gateway has no store.').waitFor();
        await page.getByRole('table', { name: 'Models' }).getByText('up/fast-1').waitFor();
        assert.deepEqual(await findViolations(page), []);
        assert.equal(await page.locator('main button').filter({ hasNotText: 'Copy' }).count(), 0);
        if (width < 800) await page.getByRole('button', { name: 'Menu' }).click();
        await page.getByRole('link', { name: 'Translate' }).click();
        await page.getByRole('region', { name: 'Gemini', exact: true }).waitFor();
        assert.deepEqual(await findViolations(page), []);
        await page.goBack();
        await page.getByText('This gateway has no store.').waitFor();
        await page.screenshot({ path: shots + 'storeless-' + width + (dark ? '-dark' : '-light') + '.png', fullPage: true });
        await close(page);
      }
    } finally {
      await bare.stop();
    }
  });
});
