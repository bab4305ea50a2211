// The page Configuration.
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { api, close, findViolations, gateway, open, settled, shots } from '../kit.mjs';

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
    assert.equal(await page.getByRole('alert').count(), 0);
    assert.equal(await page.getByText('sk-scripted').count(), 0);
    await close(page);
  });

  test('a file that is refused without a click is shown until a good one follows, on the overview too', async () => {
    await writeFile(gateway.config, gateway.text.replace('balance: weight', 'balance: wait'));
    const page = await open({ role: 'auditor', path: '/' });
    await page.getByRole('list', { name: 'Warnings' }).getByText('refused its changed configuration').waitFor();
    await page.getByRole('link', { name: 'See the mistakes' }).click();
    const line = gateway.text.split('\n').findIndex((l) => l.includes('balance: weight')) + 1;
    await page.getByRole('alert').getByText('line ' + line + ':').waitFor();
    await page.getByRole('alert').getByText('models.shared.balance').waitFor();
    await writeFile(gateway.config, gateway.text);
    await page.getByRole('alert').waitFor({ state: 'detached' });
    await close(page);
  });

  test('settings say whether the file, the environment or a default sets them', async () => {
    const page = await open({ role: 'auditor', path: '/console/config' });
    const settings = page.getByRole('table', { name: 'Settings' });
    const line = gateway.text.split('\n').findIndex((l) => l.startsWith('  fast:')) + 1;
    await settings.getByRole('row').filter({ hasText: 'models.fast.targets' }).getByText('line ' + line, { exact: true }).waitFor();
    await settings.getByRole('row').filter({ hasText: 'retries.attempts' }).getByText('default').waitFor();
    await settings.getByRole('row').filter({ hasText: 'providers.up.api_key' }).getByText('***').waitFor();
    await page.getByLabel('From').selectOption('default');
    assert.equal(await settings.getByText(/^line \d/).count(), 0);
    await page.getByLabel('From').selectOption('file');
    assert.equal(await settings.getByRole('row').filter({ hasText: 'retries.attempts' }).count(), 0);
    await close(page);
  });

  test('nodes of the store are listed with their version, and their configurations compared', async () => {
    const other = await gateway.beside('gw-2', (text) => text.replace('  fast: { targets: [up/fast-1] }', '  fast: { targets: [spare/fast-1] }\n  extra: { targets: [up/extra] }'));
    try {
      const page = await open({ role: 'auditor', path: '/' });
      await page.getByRole('list', { name: 'Warnings' }).getByText('gw-2 has another configuration').waitFor();
      await page.getByRole('link', { name: 'See the differences' }).click();
      const row = page.getByRole('table', { name: 'Nodes' }).getByRole('row').filter({ hasText: 'gw-2' });
      await row.getByText('running').waitFor();
      await row.getByText((await api('/nodes')).nodes[0].version).waitFor();
      const differences = page.getByRole('table', { name: 'Differences' });
      await differences.getByRole('row').filter({ hasText: 'models.extra.targets[0].target' }).getByText('only on gw-2').waitFor();
      const target = differences.getByRole('row').filter({ hasText: 'models.fast.targets[0].target' });
      await target.getByText('up/fast-1').waitFor();
      await target.getByText('spare/fast-1').waitFor();
      await settled(page);
      assert.deepEqual(await findViolations(page), []);
      for (const [width, dark] of [[1280, false], [1280, true], [375, false], [375, true]]) {
        await page.setViewportSize({ width, height: 900 });
        await page.emulateMedia({ colorScheme: dark ? 'dark' : 'light' });
        assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false, 'nodes at ' + width + ' is wider than the screen');
        await page.screenshot({ path: shots + 'nodes-' + width + (dark ? '-dark' : '-light') + '.png', fullPage: true, clip: { x: 0, y: 0, width, height: 1600 } });
      }
      await page.setViewportSize({ width: 1280, height: 900 });
      await row.getByRole('button', { name: 'Hide differences of gw-2' }).click();
      await differences.waitFor({ state: 'detached' });
      await other.stop();
      await row.getByText('stopped').waitFor();
      await close(page);
    } finally {
      await other.stop();
    }
  });
}
