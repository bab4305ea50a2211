// The page Audit.
import { test } from 'node:test';
import { close, open } from '../kit.mjs';

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
    await page.getByRole('button', { name: 'Verify the chain' }).click();
    await page.getByText(/All \d+ entries are valid/).waitFor();
    await close(page);
  });
}
