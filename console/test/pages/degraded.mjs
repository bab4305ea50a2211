// Targets that fail while they get requests: on the Overview, in the list of targets and on the model's page.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { close, gateway, go, open, settled, shots } from '../kit.mjs';
import { until } from '../rig.mjs';

export function tests() {
  test('a target that fails is not ready: how many requests succeeded, and what was refused', async () => {
    const node = await gateway.beside('doubtful', (text) => text
      .replace('providers:\n', `retries: { attempts: 1 }\nproviders:\n  revoked: { protocol: openai-chat, base_url: "http://127.0.0.1:${gateway.upstream.port}/v1", api_key: sk-revoked }\n`)
      .replace('models:\n', 'models:\n  patchy: { targets: [up/patchy] }\n  locked: { targets: [revoked/locked] }\n'));
    try {
      await until('the key is known', async () => (await node.send(gateway.clients[2], 'fast')) === 200);
      const answers = [];
      for (let i = 0; i < 9; i++) answers.push(await node.send(gateway.clients[2], 'patchy'));
      assert.equal(answers.filter((status) => status === 200).length, 3);
      assert.notEqual(await node.send(gateway.clients[2], 'locked'), 200);
      for (const width of [1280, 768, 390]) {
        const page = await open({ role: 'auditor', from: node, width });
        const warnings = page.getByRole('list', { name: 'Warnings' });
        await warnings.getByText(/^up\/patchy at .* is degraded: 3 of 9 in 15 min succeeded, the last error was HTTP 500\. It still gets requests\.$/).waitFor();
        await warnings.getByText(/^revoked\/locked at .* credential refused until .*: /).waitFor();
        await settled(page);
        await page.screenshot({ path: shots + 'degraded-overview-' + width + '.png', fullPage: true });
        await go(page, '/console/models');
        for (const [target, state] of [['up/patchy', 'degraded'], ['revoked/locked', 'credential refused'], ['up/fast-1', 'ready']]) {
          await page.getByRole('row', { name: new RegExp(target + ' at') }).getByText(state, { exact: true }).first().waitFor();
        }
        await page.getByRole('row', { name: /up\/patchy at/ }).getByText('3 of 9 in 15 min').first().waitFor();
        assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false, 'the page is wider than ' + width);
        await page.screenshot({ path: shots + 'degraded-models-' + width + '.png', fullPage: true });
        await close(page);
      }
    } finally {
      await node.stop();
    }
  });
}
