// The page Models and targets.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api, close, findViolations, gateway, go, open } from '../kit.mjs';
import { until } from '../rig.mjs';

export const screens = { models: '/console/models', model: '/console/models/careful' };

export function tests() {
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
}
