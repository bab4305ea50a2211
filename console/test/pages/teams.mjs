// The page Teams and budgets.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api, close, compiled, open } from '../kit.mjs';

export const screens = { teams: '/console/teams' };

export function tests() {
  test('a budget has a burn-down with its forecast, in words and as a chart', async () => {
    const page = await open({ role: 'billing', path: '/console/teams' });
    const team = page.getByRole('region', { name: 'Organisation acme' }).getByRole('listitem').filter({ has: page.getByRole('heading', { name: 'search' }) });
    await team.getByText(/(Lasts|Used up in about .*) at this rate: \$.* a day/).waitFor();
    await team.getByRole('img', { name: /^Burn-down of \$20\.00: \$.* spent\. (Lasts|Used up|It is used up)/ }).waitFor();
    await team.getByText('API call').click();
    const call = (await team.locator('.source code').innerText()).replace(/^GET \/api\/v1/, '');
    assert.match(call, /org=acme.*team=search.*group=day/);
    assert.ok((await api(call, 'billing')).sums.length > 1);
    await close(page);
  });

  test('the forecast of a budget knows that spend leaves the window', async () => {
    const { forecast } = await compiled('ui/forecast.ts');
    const day = 86400, now = 100 * day;
    const daily = (days, cost) => Array.from({ length: days }, (_, i) => ({ start: now - (days - i) * day, cost }));
    const budget = (amount, window, spent) => ({ budget: String(amount), window_seconds: window * day, spent: String(spent) });
    const steady = forecast(budget(20, 10, 10), daily(20, 1), day, now); // a dollar a day fits into ten days
    assert.equal(steady.usedUp, undefined);
    assert.ok(Math.abs(steady.rate * day - 1) < 1e-9 && Math.abs(steady.most - 10) < 1e-6);
    assert.ok(steady.spent.filter((v) => v !== null).every((v) => Math.abs(v - 10) < 1e-6));
    const begun = forecast(budget(20, 30, 5), daily(5, 1), day, now); // 15 dollars are left, and nothing leaves before
    assert.ok(Math.abs(begun.usedUp - (now + 15 * day)) < day / 10, String(begun.usedUp - now));
    assert.equal(Math.max(...begun.projected.filter((v) => v !== null)), 20);
    const forever = forecast(budget(8, 0, 5), daily(5, 1), day, now);
    assert.ok(Math.abs(forever.usedUp - (now + 3 * day)) < day / 10);
    assert.equal(forecast(budget(5, 10, 0), [], day, now).usedUp, undefined);
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
}
