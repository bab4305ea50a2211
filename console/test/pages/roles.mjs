// Each role with each page and each action.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { allPages, close, gateway, go, open, screens, settled } from '../kit.mjs';
import { until } from '../rig.mjs';

// The operators. Those of acme are bound to this organisation.
const operators = ['owner', 'admin', 'auditor', 'billing', 'key-manager', 'auditor of acme', 'billing of acme', 'key-manager of acme'];
const all = operators;
const admins = ['owner', 'admin'];
const auditors = [...admins, 'auditor'];
const readers = [...auditors, 'billing', 'auditor of acme', 'billing of acme'];
const keepers = [...admins, 'key-manager', 'key-manager of acme'];
const budgets = [...admins, 'billing', 'billing of acme'];

const models = { sees: auditors, actions: { 'Explain a request': auditors } };
const key = { sees: all, actions: { Change: keepers, Rotate: keepers, Revoke: keepers, 'Set budget': budgets } };
const translate = { sees: all, actions: { Clear: all, Example: all } };

// table has for each screen who sees it, and who is offered which action. The API refuses the rest, which
// its own tests show.
const table = {
  overview: { sees: all, actions: {} },
  exchanges: { sees: readers, actions: {} },
  'exchanges-live': { sees: readers, actions: { Pause: readers } },
  exchange: { sees: readers, actions: {} }, 'exchange-lost': { sees: readers, actions: {} },
  'exchange-failed': { sees: readers, actions: {} }, 'exchange-refused': { sees: readers, actions: {} },
  models,
  model: { sees: auditors, actions: { Explain: auditors } },
  translate, 'translate-stream': translate,
  playground: { sees: keepers, actions: { 'Clear the conversation': keepers, Send: keepers } },
  usage: { sees: readers, actions: { 'Download CSV': readers } },
  keys: { sees: all, actions: { 'Create a key': keepers } },
  key, 'key-refused': key,
  teams: { sees: all, actions: { 'Create an organisation': admins, 'Create a team': keepers, Change: keepers, Block: keepers, 'Set budget': budgets } },
  config: { sees: auditors, actions: { 'Reload the file': admins } },
  audit: { sees: [...auditors, 'auditor of acme'], actions: { 'Verify the chain': auditors } },
  missing: { sees: all, actions: {} },
};

const always = /^(|Copy.*|Show more|Show filters|Sign out|Try again|Show differences)$/; // not actions on the gateway's data

export function tests() {
  test('the table of roles has every screen', () => {
    assert.deepEqual(Object.keys(table).sort(), Object.keys(screens).sort());
  });

  for (const operator of operators) {
    test(operator + ' sees and is offered what the role may, and no call of a page is refused', async () => {
      const page = await open({ role: operator });
      const refused = [];
      page.on('response', (r) => { if (r.status() >= 400 && r.url().includes('/api/')) refused.push(r.status() + ' ' + r.url()); });
      await settled(page);
      for (const [what, path] of Object.entries(await allPages())) {
        const { sees, actions } = table[what];
        await go(page, path);
        await page.waitForFunction(() => document.querySelector('main h1, main .empty'));
        await settled(page);
        await page.waitForLoadState('networkidle');
        assert.equal(await page.getByText('may not see this page').count(), sees.includes(operator) ? 0 : 1, what);
        const want = Object.keys(actions).filter((name) => actions[name].includes(operator)).sort();
        let found;
        await until(what + ' has its actions', async () => { // a table may come later than its page
          found = [...new Set((await page.locator('main button').allInnerTexts()).filter((n) => !always.test(n)))].sort();
          return isDeepStrictEqual(found, want);
        }).catch(() => assert.deepEqual(found, want, what));
        assert.equal(await page.getByRole('main').getByRole('alert').count(), 0, what);
      }
      assert.deepEqual(refused, []);
      const links = await page.getByRole('navigation').getByRole('link').allInnerTexts();
      const titles = { overview: 'Overview', exchanges: 'Exchanges', models: 'Models and targets', translate: 'Translate', playground: 'Playground', usage: 'Usage', keys: 'Keys and people', teams: 'Teams and budgets', config: 'Configuration', audit: 'Audit' };
      assert.deepEqual(links, Object.keys(titles).filter((what) => table[what].sees.includes(operator)).map((what) => titles[what]));
      await close(page);
    });
  }

  // What an operator of one organisation must not find on any page.
  test('an operator of one organisation sees nothing of another', async () => {
    await gateway.api(gateway.keys.owner, '/orgs', { method: 'POST', body: JSON.stringify({ id: 'rival', name: 'The rival' }) });
    const key = await gateway.createKey('--name', 'a key of the rival', '--models', '*', '--org', 'rival');
    await gateway.send(key, 'fast');
    for (const operator of operators.filter((name) => name.includes(' of '))) {
      const page = await open({ role: operator });
      for (const [what, path] of Object.entries(await allPages())) {
        await go(page, path);
        await settled(page);
        await page.waitForLoadState('networkidle');
        assert.doesNotMatch(await page.getByRole('main').innerText(), /rival/, operator + ' on ' + what);
      }
      await page.keyboard.press('Control+k');
      await page.keyboard.type('rival');
      await page.waitForTimeout(300);
      assert.equal(await page.getByRole('option').filter({ hasText: 'rival' }).count(), 0);
      await close(page);
    }
  });
}
