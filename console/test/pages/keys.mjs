// The page Keys and people.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api, close, gateway, open } from '../kit.mjs';
import { evil, until } from '../rig.mjs';

export const screens = { keys: '/console/keys', key: async () => '/console/keys/' + (await api('/keys?org=acme')).keys.find((k) => k.name === 'ci').id };

export function tests() {
  test('keys are filtered by organisation and team, which have their names', async () => {
    const page = await open({ role: 'owner', path: '/console/keys' });
    const table = page.getByRole('table', { name: 'Keys' });
    await page.getByLabel('Organisation').selectOption({ label: 'Acme Inc. (acme)' });
    await table.getByRole('link', { name: 'notebooks' }).waitFor();
    await page.getByLabel('Team').selectOption({ label: 'Search (search)' });
    await table.getByRole('link', { name: 'notebooks' }).waitFor({ state: 'detached' });
    await table.getByRole('row').filter({ has: page.getByRole('link', { name: 'ci', exact: true }) }).getByText('Acme Inc. / Search').waitFor();
    await close(page);
  });

  test('the list has what each key has spent and when it was used last, for roles that see usage', async () => {
    const { keys } = await api('/keys?limit=1000&spent=30d');
    const ci = keys.find((k) => k.name === 'ci');
    assert.ok(Number(ci.spent) > 0 && Date.now() - Date.parse(ci.last_used) < 7_200_000, JSON.stringify(ci));
    const page = await open({ role: 'billing', path: '/console/keys' });
    const row = (name) => page.getByRole('table', { name: 'Keys' }).getByRole('row').filter({ has: page.getByRole('link', { name, exact: true }) });
    await row('ci').getByTitle('$' + ci.spent).waitFor();
    await row('ci').getByText(/^(this hour|1 h ago)$/).waitFor();
    await page.locator('.source').first().getByText('API call').click();
    await page.getByText('spent=30d').waitFor();
    await row('ci').getByRole('link').click();
    await page.getByRole('definition').filter({ hasText: /^(this hour|1 h ago)$/ }).waitFor();
    await close(page);
    const manager = await open({ role: 'key-manager', path: '/console/keys' });
    await manager.getByRole('link', { name: 'ci', exact: true }).waitFor();
    assert.equal(await manager.getByText('Last used').count(), 0);
    await close(manager);
  });

  test('models of a key are picked from the known ones, and an unknown one is warned of', async () => {
    const page = await open({ role: 'owner', path: '/console/keys?new=1' });
    const dialog = page.getByRole('dialog');
    const field = dialog.getByLabel('Models', { exact: true });
    await dialog.getByRole('list', { name: 'Known models' }).getByRole('button', { name: '+ fast' }).click();
    assert.equal(await field.inputValue(), 'fast');
    await field.fill('fast, car');
    await dialog.getByRole('button', { name: '+ careful' }).click();
    assert.equal(await field.inputValue(), 'fast, careful');
    assert.equal(await dialog.getByText('No model has the name').count(), 0);
    await field.fill('fast, smrat, ' + evil);
    await dialog.getByText('No model has the name smrat; did you mean smart?').waitFor();
    assert.equal(await dialog.getByText(/No model has the name/).count(), 1);
    for (const known of ['*', 'f*', 'careful']) {
      await field.fill(known);
      await dialog.getByText('No model has the name').waitFor({ state: 'detached' });
    }
    await field.fill('nothing-like-it');
    await dialog.getByText('No model has the name nothing-like-it.').waitFor();
    await dialog.getByLabel('Name').fill('early'); // a warning does not keep anybody from it
    await dialog.getByRole('button', { name: 'Create' }).click();
    await dialog.getByText('Copy the key now').waitFor();
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
}
