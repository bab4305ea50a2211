// What each role is offered.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allPages, close, go, open, settled } from '../kit.mjs';

export function tests() {
  // What each role is offered. The API refuses the rest, which the tests of the API show.
  const offers = {
    owner: { pages: 10, models: ['Explain a request'], keys: ['Create a key'], key: ['Change', 'Set budget', 'Rotate', 'Revoke'], teams: ['Create an organisation', 'Create a team', 'Set budget', 'Change', 'Block'], config: ['Reload the file'] },
    admin: { pages: 10, models: ['Explain a request'], keys: ['Create a key'], key: ['Change', 'Set budget', 'Rotate', 'Revoke'], teams: ['Create an organisation', 'Create a team', 'Set budget', 'Change', 'Block'], config: ['Reload the file'] },
    auditor: { pages: 9, models: ['Explain a request'], keys: [], key: [], teams: [], config: [] },
    billing: { pages: 6, keys: [], key: ['Set budget'], teams: ['Set budget'] },
    'key-manager': { pages: 5, keys: ['Create a key'], key: ['Change', 'Rotate', 'Revoke'], teams: ['Create a team', 'Change', 'Block'] },
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
}
