// The page Exchanges.
import { test } from 'node:test';
import { close, gateway, go, open, retriedRequest } from '../kit.mjs';

export const screens = { exchanges: '/console/exchanges', exchange: async () => '/console/exchanges/' + (await retriedRequest()).id };

export function tests() {
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
}
