// The page Configuration.
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { close, gateway, open } from '../kit.mjs';

export const screens = { config: '/console/config' };

export function tests() {
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
}
