// The page Translate.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { close, gateway, go, open, settled } from '../kit.mjs';
import { evil } from '../rig.mjs';

export const screens = { translate: '/console/translate', 'translate-stream': '/console/translate?from=openai-chat&kind=stream' };

export function tests() {
  test('a body is translated to the other dialects, with its losses', async () => {
    const page = await open({ role: 'billing', path: '/console/translate' });
    const output = (name) => page.getByRole('region', { name, exact: true });
    for (const name of ['Chat Completions', 'Responses', 'Gemini']) await output(name).waitFor();
    assert.equal(await output('Messages').count(), 0);
    const chat = output('Chat Completions');
    await chat.getByRole('listitem').filter({ hasText: 'top_k' }).getByText('dropped').waitFor();
    await page.getByRole('region', { name: 'Input with losses' }).getByText('← dropped (top_k.unsupported) for Chat Completions, Responses').waitFor();
    assert.ok((await chat.locator('mark').allInnerTexts()).includes('"function"')); // the input does not have it
    assert.ok(!(await chat.locator('mark').allInnerTexts()).includes('"get_weather"'));
    assert.ok((await chat.locator('pre .renamed').allInnerTexts()).includes('"tool_calls"'));

    // The command and the API call give the same.
    await chat.getByText('Command', { exact: true }).click();
    const args = (await chat.locator('.source-call code').innerText()).split(' ');
    assert.deepEqual([args[0], args.at(-1)], ['isogloss', 'request.json']);
    const input = await page.getByLabel('Messages request').first().inputValue();
    const { stdout } = await gateway.command([...args.slice(1, -1)], input);
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await chat.getByRole('button', { name: 'Copy', exact: true }).click();
    await chat.getByRole('button', { name: 'Copied' }).waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), stdout.trimEnd());

    // Another dialect and kind bring their example; a text that was typed stays.
    await page.getByLabel('Dialect').selectOption('gemini');
    await output('Messages').waitFor();
    await page.getByLabel('Kind').selectOption('stream');
    await output('Responses').getByText('response.completed').first().waitFor();
    assert.match(page.url(), /from=gemini&kind=stream/);
    const text = page.locator('textarea');
    await text.fill('data: {"candidates":[{"content":{"parts":[{"text":"cut');
    await page.getByText('that can be translated').or(output('Messages').getByText('error').first()).waitFor();
    await page.getByLabel('Kind').selectOption('request');
    await page.getByRole('alert').getByText('This is no Gemini request').waitFor();
    await page.getByRole('button', { name: 'Clear' }).click();
    await page.getByText('Nothing to translate').waitFor();
    await page.getByRole('button', { name: 'Example' }).click();
    await output('Messages').waitFor();
    await text.fill('{"contents":[{"role":"user","parts":[{"text":"' + 'x'.repeat(1 << 20) + '"}]}]}');
    await page.getByRole('alert').getByText('larger than 1048576 bytes').waitFor();
    await close(page);
  });

  test('a request that a dialect refuses says so, and the model decides about its rules', async () => {
    const page = await open({ role: 'owner', path: '/console/translate?from=openai-chat' });
    await page.locator('textarea').fill(JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'x' }], modalities: ['text', 'audio'], audio: { voice: 'alloy', format: 'wav' } }));
    await page.getByRole('region', { name: 'Messages', exact: true }).getByText('refused').first().waitFor();
    await page.getByRole('button', { name: 'Example' }).click();
    await page.getByLabel('Model at the upstream').fill('claude-sonnet-4-5');
    await page.getByRole('region', { name: 'Messages request' }).getByText('"claude-sonnet-4-5"').waitFor();
    await close(page);
  });

  test('a long history is translated, and shown in part', async () => {
    const page = await open({ role: 'owner', path: '/console/translate?from=openai-chat' });
    const messages = Array.from({ length: 1000 }, (_, i) => ({ role: i % 2 ? 'assistant' : 'user', name: 'ann', content: 'word '.repeat(40) + i }));
    await page.locator('textarea').fill(JSON.stringify({ model: 'm', messages }));
    await page.getByRole('region', { name: 'Gemini', exact: true }).getByText('further lines are not shown').waitFor();
    await page.getByRole('region', { name: 'Gemini', exact: true }).getByText('further losses are not shown').waitFor();
    await page.getByRole('button', { name: 'Clear' }).click();
    await page.getByText('Nothing to translate').waitFor();
    await close(page);
  });

  test('the text to translate is never HTML', async () => {
    const page = await open({ role: 'owner', path: '/console/translate?from=openai-chat' });
    const bodies = [
      JSON.stringify({ model: evil, [evil]: evil, messages: [{ role: 'user', name: evil, content: evil }], tools: [{ type: 'function', function: { name: 'f', description: evil } }], seed: 1 }),
      evil, '{"model":"' + evil, JSON.stringify({ [evil]: { [evil]: [evil] } }), JSON.stringify({ model: 'm', messages: evil }),
    ];
    for (const body of bodies) {
      const waiting = page.waitForResponse((r) => r.url().endsWith('/translate'));
      await page.locator('textarea').fill(body);
      await waiting;
      await page.waitForTimeout(100);
      assert.equal(await page.locator('img').count(), 0, body);
    }
    for (const from of [evil, 'nothing']) {
      await go(page, '/console/translate?model=' + encodeURIComponent(evil) + '&kind=' + encodeURIComponent(evil) + '&from=' + encodeURIComponent(from));
      await settled(page);
      assert.equal(await page.locator('img').count(), 0);
    }
    await close(page);
  });

  test('a text is translated by keyboard alone', async () => {
    const page = await open({ role: 'key-manager' });
    await page.keyboard.press('Control+k');
    await page.keyboard.type('transl');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Translate' }).waitFor();
    await page.getByLabel('Dialect').focus();
    await page.keyboard.type('Gem');
    await page.getByRole('region', { name: 'Messages', exact: true }).waitFor();
    for (let i = 0; i < 3; i++) await page.keyboard.press('Tab');
    assert.equal(await page.evaluate(() => document.activeElement.tagName), 'TEXTAREA');
    await close(page);
  });
}
