// The page Playground.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { api, close, compiled, findViolations, gateway, go, open, settled, shots } from '../kit.mjs';
import { played } from '../play.mjs';
import { evil, Gateway, until } from '../rig.mjs';

const run = promisify(execFile);

export const screens = { playground: '/console/playground' };

const dialects = { 'openai-chat': 'chat.completion', 'openai-responses': 'response', anthropic: 'message', gemini: 'candidates', converse: 'message' };
const png = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==', 'base64');

let made;
const playKey = async () => {
  made ??= gateway.createKey('--name', 'play', '--models', '*', '--org', 'acme');
  const text = await made;
  return { text, id: (await api('/keys?limit=1000')).keys.find((k) => k.name === 'play').id };
};

async function openPlayground({ role = 'owner', dialect = 'openai-chat', model = 'smart', key, ...rest } = {}) {
  const page = await open({ role, path: `/console/playground?dialect=${dialect}&model=${model}&key=${key ?? (await playKey()).id}`, ...rest });
  await page.getByLabel('Your message').waitFor();
  return page;
}

const say = async (page, text) => {
  await page.getByLabel('Your message').fill(text);
  await page.keyboard.press('Control+Enter');
};

const turn = (page, n) => page.getByRole('log').locator('section').nth(n - 1);
const raw = (page, n) => page.getByRole('region', { name: 'Raw bytes of answer ' + n });

// modules returns the parts of the page that need no browser.
const modules = async () => Object.assign({}, ...await Promise.all(['answers', 'dialects', 'snippets'].map((name) => compiled('playground/' + name + '.ts'))));

// frameOf writes a frame of a stream of Converse, without its checksums.
function frameOf(name, payload) {
  const kind = name.endsWith('Exception') ? 'exception' : 'event';
  const headers = Buffer.concat(Object.entries({ [':' + kind + '-type']: name, ':content-type': 'application/json', ':message-type': kind }).map(([k, v]) => Buffer.from([k.length, ...Buffer.from(k), 7, 0, v.length, ...Buffer.from(v)])));
  const body = Buffer.from(payload);
  const prelude = Buffer.alloc(12);
  prelude.writeUInt32BE(16 + headers.length + body.length, 0);
  prelude.writeUInt32BE(headers.length, 4);
  return Buffer.concat([prelude, headers, body, Buffer.alloc(4)]);
}

export function tests() {
  test('streams are read, however they are cut', async () => {
    const { EventReader, FrameReader, newAnswer, readEvent, readBody, build } = await modules();
    const examples = JSON.parse(await readFile(new URL('../../src/pages/translate-examples.json', import.meta.url), 'utf8'));
    for (const dialect of Object.keys(dialects)) {
      const text = examples[dialect].stream;
      const answers = [1, 7, text.length].map((size) => {
        const events = new EventReader();
        const a = newAnswer();
        for (let i = 0; i < text.length; i += size) for (const data of events.read(text.slice(i, i + size))) readEvent(dialect, a, data);
        for (const data of events.read('\n\n')) readEvent(dialect, a, data);
        return a;
      });
      assert.equal(answers[0].error, '', dialect);
      assert.ok(answers[0].blocks.length > 0 && Object.keys(answers[0].usage).length > 0, dialect + ': ' + JSON.stringify(answers[0]));
      assert.deepEqual(answers[1], answers[0]);
      assert.deepEqual(answers[2], answers[0]);
      const whole = newAnswer();
      readBody(dialect, whole, examples[dialect].response);
      assert.equal(whole.error, '', dialect);
      assert.ok(whole.blocks.length > 0, dialect);
      // The next request repeats the answer in any dialect.
      for (const to of Object.keys(dialects)) {
        const settings = { dialect: to, model: "a/m'", stream: true, system: 'Be brief.', maxTokens: 5, tools: [{ name: 'f' }] };
        const { path, body } = build(settings, [{ dialect, input: { text: 'Hi', images: [] }, answer: whole }], { text: 'More', images: [] });
        assert.equal((body.messages ?? body.input ?? body.contents).length >= 3, true, to);
        if (to === 'converse') assert.equal(path, '/model/a%2Fm%27/converse-stream');
        if (to === 'gemini') assert.equal(path, '/v1beta/models/a/m%27:streamGenerateContent?alt=sse');
      }
    }
    const frames = Buffer.concat([frameOf('messageStart', '{"role":"assistant"}'), frameOf('contentBlockDelta', '{"contentBlockIndex":0,"delta":{"text":"é"}}'), frameOf('throttlingException', '{"message":"slow"}')]);
    for (const size of [1, 7, frames.length]) {
      const reader = new FrameReader();
      const a = newAnswer();
      for (let i = 0; i < frames.length; i += size) for (const data of reader.read(frames.subarray(i, i + size))) readEvent('converse', a, data);
      assert.deepEqual([a.blocks, a.error], [[{ kind: 'text', text: 'é' }], 'slow']);
    }
    const broken = newAnswer();
    readEvent('anthropic', broken, '{"type":"error","error":{"type":"overloaded_error","message":"busy"}}');
    assert.equal(broken.error, 'busy');
    readEvent('gemini', broken, '{"cut');
    assert.match(broken.error, /cannot read/);
  });

  for (const [dialect, mark] of Object.entries(dialects)) {
    test('a conversation in ' + dialect + ', streamed and not, with its bytes, usage, cost and exchange', async () => {
      const page = await openPlayground({ dialect });
      const { id: key } = await playKey();
      await say(page, 'play: hello');
      await turn(page, 1).locator('.block.text').getByText('You said:\nplay: hello – ünï ✓').waitFor();
      await turn(page, 1).getByText('answered', { exact: true }).waitFor();
      assert.match(await raw(page, 1).innerText(), /^(event|data): /);
      assert.ok((await raw(page, 1).innerText()).includes(mark));
      await page.getByLabel('Stream the answer').uncheck();
      await say(page, 'play: again');
      await turn(page, 2).locator('.block.text').getByText('You said:\nplay: again').waitFor();
      assert.ok((await raw(page, 2).innerText()).startsWith('{'));
      assert.equal(played.last.messages.filter((m) => m.role === 'user').length, 2); // with the first turn
      assert.match(JSON.stringify(played.last.messages), /You said:/);
      for (const n of [1, 2]) {
        await turn(page, n).getByText('1,200 input, 34 output').waitFor();
        await turn(page, n).getByText('$0.00411').waitFor(); // 1200 × 3 + 34 × 15 dollars per million
        await turn(page, n).getByText('up/smart-2').waitFor();
        const id = await turn(page, n).getByRole('link').innerText();
        const row = await api('/requests/' + id);
        assert.deepEqual([row.key, row.dialect, row.stream, row.outcome], [key, dialect, n === 1, 'answered']);
        const entries = (await api('/audit?action=run-request&limit=1000')).entries.filter((e) => e.detail?.includes(id));
        assert.deepEqual(entries.map((e) => [e.object, e.outcome, e.detail]), [['key:' + key, 'allowed', `request ${id}, model smart`]]);
      }
      await turn(page, 2).getByRole('link').click();
      await page.getByRole('heading', { level: 1 }).getByText(/./).waitFor();
      assert.match(page.url(), /\/console\/exchanges\/[0-9a-f-]{36}$/);
      await close(page);
    });

    test('tools, reasoning and images in ' + dialect, async () => {
      const page = await openPlayground({ dialect });
      await page.getByText('System prompt and tools').click();
      await page.getByLabel('Tools, as JSON').fill('[{"description":"no name"}]');
      await page.getByText('Every tool needs a name.').waitFor();
      await page.getByRole('button', { name: 'Example tool' }).click();
      await page.getByLabel('System prompt').fill('Be brief.');
      await say(page, 'play: the weather?');
      await turn(page, 1).getByText('Calls get_weather').waitFor();
      assert.equal(played.last.tools[0].function.name, 'get_weather');
      assert.equal(played.last.messages[0].content, 'Be brief.');
      await page.getByLabel('Result of get_weather').fill('<b>sunny</b>');
      await page.keyboard.press('Control+Enter');
      await turn(page, 2).locator('.block.text').getByText('The tool says').waitFor();
      assert.match(JSON.stringify(played.last.messages.at(-1).content), /<b>sunny<\/b>/);
      assert.equal(JSON.parse(played.last.messages.at(-2).tool_calls[0].function.arguments).city, 'Paris');
      await page.getByRole('button', { name: 'Clear the conversation' }).click();
      await page.getByLabel('Tools, as JSON').fill('');

      await say(page, 'play: think');
      await turn(page, 1).locator('.block.text').getByText('Done.').waitFor();
      await turn(page, 1).locator('.block.reasoning').getByText('Let me think.').waitFor();

      const files = page.getByLabel('Add images');
      await files.setInputFiles({ name: 'large.png', mimeType: 'image/png', buffer: Buffer.alloc((4 << 20) + 1) });
      await page.getByText('large.png is larger than 4 MB.').waitFor();
      await files.setInputFiles({ name: 'dot.png', mimeType: 'image/png', buffer: png });
      await page.getByRole('img', { name: 'dot.png' }).waitFor();
      await say(page, 'play: what is this?');
      await turn(page, 2).locator('.block.text').getByText('I see data:image/png;base64,').waitFor();
      assert.ok(JSON.stringify(played.last.messages).includes(png.toString('base64')));
      await close(page);
    });
  }

  test('parts arrive one by one, and Stop ends the request at the upstream', async () => {
    const page = await openPlayground();
    const before = played.closed;
    await say(page, 'play: slow');
    await turn(page, 1).locator('.block.text').getByText('part 1').waitFor();
    await turn(page, 1).getByText('running', { exact: true }).waitFor();
    assert.match(await raw(page, 1).innerText(), /part 1/);
    await page.getByRole('button', { name: 'Stop' }).click();
    await turn(page, 1).getByText('stopped', { exact: true }).waitFor();
    await until('the upstream is told', async () => played.closed > before);
    await turn(page, 1).getByText(/^\$0\.0/).waitFor(); // what was written is charged
    await say(page, 'play: go on');
    await turn(page, 2).locator('.block.text').getByText('You said:').waitFor();
    await say(page, 'play: slow');
    await turn(page, 3).locator('.block.text').getByText('part 1').waitFor();
    await go(page, '/console/keys'); // leaves the page
    await until('the upstream is told again', async () => played.closed > before + 1);
    await close(page);
  });

  test('errors of the model, of the budget and of the key are shown in words, and the next request leaves the turn out', async () => {
    const page = await openPlayground();
    await say(page, 'play: refuse');
    await turn(page, 1).getByRole('alert').getByText('The model is out of order').waitFor();
    await say(page, 'play: hello');
    await turn(page, 2).locator('.block.text').getByText('You said:').waitFor();
    assert.equal(played.last.messages.length, 1);
    await close(page);

    const poor = await gateway.createKey('--name', 'poor', '--models', 'smart', '--org', 'acme', '--budget', '0.000001', '--window', '30d');
    const { id } = (await api('/keys?limit=1000')).keys.find((k) => k.name === 'poor');
    const refused = await openPlayground({ key: id });
    await say(refused, 'play: hello');
    await turn(refused, 1).getByText('status 429').waitFor();
    const shown = await turn(refused, 1).getByRole('alert').innerText();
    await turn(refused, 1).getByText('Request', { exact: true }).click();
    const request = JSON.parse(await refused.getByRole('region', { name: 'Request 1', exact: true }).textContent());
    const same = () => fetch(gateway.url + '/v1/chat/completions', { method: 'POST', headers: { Authorization: 'Bearer ' + poor, 'Content-Type': 'application/json' }, body: JSON.stringify(request) });
    await until('the client port knows the key', async () => (await same()).status === 429);
    const { error } = await (await same()).json();
    assert.ok(shown.toLowerCase().startsWith(error.message.toLowerCase().slice(0, 60)), shown + ' / ' + error.message);
    await refused.getByLabel('Model').fill('careful');
    await say(refused, 'play: hello');
    await turn(refused, 2).getByText('status 403').waitFor();
    await turn(refused, 2).getByRole('alert').getByText('may not use this model').waitFor();
    await close(refused);
  });

  test('output of a model and names of tools do not run as HTML', async () => {
    for (const dialect of Object.keys(dialects)) {
      const page = await openPlayground({ dialect });
      await say(page, 'play: evil');
      await turn(page, 1).locator('.block.text').getByText(evil + '<script>').waitFor();
      await turn(page, 1).getByText('answered', { exact: true }).waitFor();
      assert.equal(await page.locator('main img, main script').count(), 0);
      await close(page);
    }
  });

  test('who may not run requests is not offered the page, and a key manager may', async () => {
    for (const role of ['auditor', 'billing']) {
      const page = await open({ role, path: '/console/playground' });
      await page.getByText('may not see this page').waitFor();
      assert.equal(await page.getByRole('navigation').getByText('Playground').count(), 0);
      await close(page);
    }
    const page = await openPlayground({ role: 'key-manager' });
    await say(page, 'play: hello');
    await turn(page, 1).locator('.block.text').getByText('You said:').waitFor();
    await turn(page, 1).getByText('Your role may not read the ledger').waitFor();
    await close(page);
  });

  test('without a store the page says what is missing', async () => {
    const bare = await Gateway.start({ store: false });
    const page = await open({ path: '/console/playground', from: bare });
    await page.getByText('This gateway has no store.').waitFor();
    assert.deepEqual(await findViolations(page), []);
    await close(page);
    await bare.stop();
  });

  test('the programs work as they are shown', async (t) => {
    const page = await openPlayground();
    const { text: key } = await playKey();
    await until('the client port knows the key', async () => (await gateway.send(key, 'smart')) === 200);
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    const cache = process.env.ISOGLOSS_E2E_CACHE ?? join(homedir(), '.cache/isogloss-e2e');
    const dir = await mkdtemp(join(tmpdir(), 'isogloss-snippets-'));
    const python = join(cache, 'python-newest/bin/python');
    const packages = join(cache, 'node/node_modules');
    if (existsSync(packages)) await symlink(packages, join(dir, 'node_modules'));
    const file = async (name, text) => { await writeFile(join(dir, name), text); return join(dir, name); };
    const commands = {
      curl: async (text) => ['bash', await file('run.sh', text)],
      Go: async (text) => ['go', 'run', await file('main.go', text)],
      Python: async (text) => existsSync(python) && [python, await file('run.py', text)],
      Node: async (text) => existsSync(packages) && [process.execPath, await file('run.mjs', text)],
    };
    await page.getByText('System prompt and tools').click();
    await page.getByLabel('System prompt').fill('It\'s "brief".');
    const done = [];
    for (const dialect of Object.keys(dialects)) {
      for (const stream of [true, false]) {
        await page.getByLabel('Dialect').selectOption(dialect);
        await page.getByLabel('Stream the answer').setChecked(stream);
        await say(page, `play: it's ${dialect} "quoted" \\ \`x\` ${stream}`);
        await turn(page, 1).getByText('answered', { exact: true }).waitFor();
        for (const [language, command] of Object.entries(commands)) {
          if (dialect === 'converse' && (language === 'Python' || language === 'Node')) continue; // not offered without HTTPS
          if (language === 'Go' && (stream || dialect !== 'gemini')) continue; // a build takes seconds
          await page.getByLabel('Language').selectOption(language);
          const shown = await page.getByRole('region', { name: 'Program', exact: true }).textContent();
          assert.ok(shown.includes(gateway.url) && shown.includes('ISOGLOSS_KEY'), shown);
          const argv = await command(shown);
          if (!argv) {
            t.diagnostic(language + ' is left out: make e2e installs its SDKs');
            continue;
          }
          const { stdout } = await run(argv[0], argv.slice(1), { cwd: dir, env: { ...process.env, ISOGLOSS_KEY: key }, timeout: 60_000 });
          assert.match(stdout, /You said:/, dialect + ' ' + language);
          assert.ok(JSON.stringify(played.last.messages).includes(JSON.stringify(`play: it's ${dialect} "quoted" \\ \`x\` ${stream}`).slice(1, -1)));
          done.push(language + ' ' + dialect + ' ' + stream);
        }
        await page.getByRole('button', { name: 'Clear the conversation' }).click();
      }
    }
    await page.getByRole('button', { name: 'Copy', exact: true }).last().click();
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), await page.getByRole('region', { name: 'Program', exact: true }).textContent());
    t.diagnostic('run: ' + done.join(', '));
    await rm(dir, { recursive: true });
    await close(page);
  });

  for (const [width, dark] of [[1280, false], [1280, true], [375, false], [375, true]]) {
    test(`a conversation at ${width}${dark ? '-dark' : '-light'} has no violation and fits`, async () => {
      const page = await openPlayground({ width, dark, dialect: 'anthropic' });
      await say(page, 'play: think');
      await turn(page, 1).getByText('answered', { exact: true }).waitFor();
      await say(page, 'play: refuse');
      await turn(page, 2).getByText('failed', { exact: true }).waitFor();
      await page.getByText('System prompt and tools').click();
      await page.getByRole('button', { name: 'Example tool' }).click();
      await page.getByLabel('Add images').setInputFiles({ name: 'dot.png', mimeType: 'image/png', buffer: png });
      await say(page, 'play: the weather?');
      await turn(page, 3).getByText('answered', { exact: true }).waitFor();
      await turn(page, 3).getByText(/^\$0/).waitFor();
      await settled(page);
      assert.deepEqual(await findViolations(page), []);
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false);
      await page.screenshot({ path: `${shots}playground-used-${width}${dark ? '-dark' : '-light'}.png`, fullPage: true });
      await close(page);
    });
  }
}
