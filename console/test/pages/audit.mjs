// The page Audit.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api, close, open } from '../kit.mjs';

export const screens = { audit: '/console/audit' };

export function tests() {
  test('the audit log is filtered and verified', async () => {
    const page = await open({ role: 'auditor', path: '/console/audit' });
    await page.getByLabel('Operation').fill('create-team');
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => {
      const rows = [...document.querySelectorAll('tbody tr td:nth-child(3)')];
      return rows.length > 0 && rows.every((c) => c.textContent === 'create-team');
    });
    await page.getByLabel('Operation').fill('create-key'); // by the command line
    await page.keyboard.press('Enter');
    await page.getByRole('row').filter({ hasText: 'create-key' }).first().waitFor();
    await page.getByLabel('Operation').fill('');
    await page.keyboard.press('Enter');
    await page.getByRole('row').filter({ hasText: 'create-team' }).first().waitFor();
    assert.deepEqual((await api('/audit?limit=1000', 'auditor')).entries.filter((e) => e.action.includes('.')), []);
    await page.getByRole('button', { name: 'Verify the chain' }).click();
    await page.getByText(/All \d+ entries are valid/).waitFor();
    await close(page);
  });
}
