// The screens with long names and many rows at 1280, 768 and 390 pixels: what overlaps, what is too high, what leaves a hole.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allPages, api, browser, close, compiled, gateway, go, open, settled, shots } from '../kit.mjs';
import { until } from '../rig.mjs';

const widths = [1280, 768, 390];
const longKey = 'a-very-long-name-without-any-space-that-somebody-has-typed-in-for-a-key-of-the-continuous-integratio';
const longOrg = 'organisation-with-a-very-long-identifier-in-one-word-department-of-research-and-development';
const longTeam = 'team-with-a-very-long-identifier-in-one-word-that-does-not-fit';

let made;

// longNames makes an organisation, a team and a key with long names, a budget of a day, requests and one that it refuses.
async function longNames() {
  if (made) return made;
  const post = async (path, body) => assert.ok((await gateway.api(gateway.keys.owner, path, { method: 'POST', body: JSON.stringify(body) })).status < 300);
  await post('/orgs', { id: longOrg, name: 'The organisation with the long name, department of research and development', limits: { budget: '2', window_seconds: 86400 } });
  await post('/orgs/' + longOrg + '/teams', { id: longTeam, name: 'A team with a long name that does not fit on one line', limits: { budget: '1', window_seconds: 86400 } });
  for (let i = 0; i < 40; i++) await post('/keys', { name: 'key number ' + i, org: longOrg, models: ['*'] });
  const text = await gateway.createKey('--name', longKey, '--models', '*', '--org', longOrg, '--team', longTeam, '--budget', '0.05', '--window', '24h');
  await until('the key is known', async () => (await gateway.send(text, 'fast')) === 200);
  for (let i = 0; i < 60; i++) await gateway.send(text, 'fast', 'word '.repeat(i % 9), { stream: i % 2 === 0 });
  const id = (await api('/keys?limit=1000&org=' + longOrg)).keys.find((k) => k.name === longKey).id;
  await until('the ledger has its requests', async () => (await api('/usage?key=' + id)).total.requests >= 61);
  assert.equal(await refuse(text), 429);
  await until('the refusal is counted', async () => (await api('/refusals?key=' + id)).refusals.length > 0);
  return (made = { id, text });
}

// refuse sends a request that may cost more than what is left of its budget, and returns the status.
const refuse = async (text) => (await gateway.request(text, { model: 'fast', max_tokens: 1_000_000, messages: [{ role: 'user', content: 'Hello' }] })).status;

// Texts that charts draw are not in the page: this notes them with their places.
const noteTexts = () => {
  const draw = CanvasRenderingContext2D.prototype.fillText;
  globalThis.drawn = [];
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...rest) {
    const width = this.measureText(text).width;
    const left = this.textAlign === 'center' ? x - width / 2 : this.textAlign === 'right' || this.textAlign === 'end' ? x - width : x;
    const matrix = this.getTransform();
    globalThis.drawn.push({ canvas: this.canvas, text, left: matrix.e + left * matrix.a, right: matrix.e + (left + width) * matrix.a, y: Math.round(matrix.f + y * matrix.d) });
    return draw.call(this, text, x, y, ...rest);
  };
  const clear = CanvasRenderingContext2D.prototype.clearRect;
  CanvasRenderingContext2D.prototype.clearRect = function (...args) {
    globalThis.drawn = globalThis.drawn.filter((d) => d.canvas !== this.canvas);
    return clear.apply(this, args);
  };
};

// overlapping returns the labels of axes that touch one another or are cut off.
const overlapping = () => {
  const found = [];
  for (const canvas of document.querySelectorAll('canvas')) {
    const texts = globalThis.drawn.filter((d) => d.canvas === canvas);
    for (const [i, a] of texts.entries()) {
      if (a.left < -1 || a.right > canvas.width + 1) found.push(a.text + ' is cut off');
      for (const b of texts.slice(i + 1)) if (a.y === b.y && a.text !== b.text && a.left < b.right + 2 && b.left < a.right + 2) found.push(a.text + ' and ' + b.text);
    }
  }
  return found;
};

export function tests() {
  for (const width of widths) {
    test('labels of axes do not overlap at ' + width, async () => {
      const { id } = await longNames();
      const page = await open({ width });
      await page.addInitScript(noteTexts);
      await page.reload();
      await page.getByLabel("Operator's key").fill(gateway.keys.owner);
      await page.getByRole('button', { name: 'Use this key' }).click();
      let labels = 0;
      for (const path of ['/', '/?range=1h', '/?range=7d', '/?range=30d', '/?range=90d', '/console/keys/' + id, '/console/teams', '/console/usage?range=30d']) {
        await go(page, path);
        await settled(page);
        await page.waitForFunction(() => document.querySelector('canvas') && globalThis.drawn.some((d) => d.canvas.isConnected));
        await page.waitForTimeout(100); // the other charts draw in the next frames
        assert.deepEqual(await page.evaluate(overlapping), [], path);
        labels += await page.evaluate(() => globalThis.drawn.filter((d) => d.canvas.isConnected).length);
      }
      assert.ok(labels > 100, labels + ' labels');
      await close(page);
    });

    test('charts and tiles leave no hole at ' + width, async () => {
      await longNames();
      const page = await open({ width, role: 'owner' });
      for (const path of ['/', '/?range=30d']) {
        await go(page, path);
        await settled(page);
        await page.locator('.charts canvas').nth(4).waitFor();
        for (const box of ['.charts', '.tiles']) {
          const rows = await page.locator(box).evaluateAll((all) => all.map((e) => {
            const right = e.getBoundingClientRect().right;
            const ends = new Map();
            for (const child of e.children) { const r = child.getBoundingClientRect(); ends.set(Math.round(r.top), Math.max(ends.get(Math.round(r.top)) ?? 0, r.right)); }
            return [...ends.values()].map((end) => Math.round(right - end));
          }));
          assert.ok(rows.length > 0 && rows.flat().every((gap) => gap <= 1), box + ' at ' + path + ': ' + JSON.stringify(rows));
        }
      }
      await close(page);
    });

    test('every page with long names fits at ' + width, async () => {
      const { id } = await longNames();
      const page = await open({ width, role: 'owner' });
      const paths = { ...await allPages(), 'key-long': '/console/keys/' + id, 'keys-long': '/console/keys?org=' + longOrg, 'exchanges-long': '/console/exchanges?org=' + longOrg, 'usage-long': '/console/usage?by=key&then=model' };
      for (const [what, path] of Object.entries(paths)) {
        await go(page, path);
        await settled(page);
        assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false, what + ' is wider than the screen');
        if (what.endsWith('-long')) await page.screenshot({ path: shots + what + '-' + width + '.png' });
      }
      await close(page);
    });
  }

  test('the welcome page shows whole commands on a phone', async () => {
    const context = await browser.newContext({ viewport: { width: 390, height: 800 } });
    const page = await context.newPage();
    await page.goto(gateway.url + '/');
    const hidden = await page.locator('pre').evaluateAll((all) => all.map((e) => e.scrollWidth - e.clientWidth));
    assert.ok(hidden.length > 0 && hidden.every((n) => n <= 0), String(hidden));
    await context.close();
  });

  test('Exchanges on a phone has 25 requests in six screens, its filters behind a button, and more on demand', async () => {
    const { text } = await longNames();
    for (let i = 0; i < 30; i++) await refuse(text);
    const page = await open({ width: 390, role: 'owner', path: '/console/exchanges?range=7d' });
    const rows = page.getByRole('table', { name: 'Exchanges' }).locator('tbody tr');
    await rows.nth(24).waitFor();
    assert.equal(await rows.count(), 25);
    const height = await page.evaluate(() => document.documentElement.scrollHeight);
    assert.ok(height < 5400, height + ' pixels');
    assert.equal(await page.getByLabel('Model', { exact: true }).isVisible(), false);
    await page.getByRole('button', { name: 'Show filters' }).click();
    await page.getByLabel('Model', { exact: true }).fill('fast');
    await page.keyboard.press('Enter');
    await page.waitForURL(/model=fast/);
    assert.equal(await page.getByLabel('Model', { exact: true }).isVisible(), true);
    await page.getByRole('button', { name: 'Show more' }).click();
    await rows.nth(25).waitFor();
    await close(page);
  });

  test('a key that its budget refuses is not said to last', async () => {
    const { id } = await longNames();
    const page = await open({ role: 'owner', path: '/console/keys/' + id });
    await page.getByText(/^Requests are refused now: they may cost more than the \$0\.0\d+ that is left\./).waitFor();
    await page.getByText(/A budget refused .* in the last 15 minutes, the last at/).waitFor();
    assert.equal(await page.getByText(/Used up in about|Lasts at this rate/).count(), 0);
    await page.getByRole('link', { name: 'What the client was told' }).click();
    await page.waitForURL(new RegExp('outcome=refused.*key=' + id));
    await page.getByText('budget: budget_exceeded').first().waitFor();
    await close(page);
  });

  test('the forecast of a window of a day holds what the day holds', async () => {
    const { forecast } = await compiled('ui/forecast.ts');
    const hour = 3600, now = 1000 * 24 * hour;
    const f = forecast({ budget: '2', window_seconds: 24 * hour, spent: '0.705' }, [{ start: now - hour, cost: 0.705 }], hour, now); // all of it in the last hour
    assert.ok(Math.abs(f.rate * 24 * hour - 0.705) < 1e-9);
    assert.ok(Math.abs(f.most - 0.705) < 1e-6, 'at most ' + f.most);
    assert.equal(f.usedUp, undefined);
    const week = forecast({ budget: '2', window_seconds: 7 * 24 * hour, spent: '0.705' }, [{ start: now - hour, cost: 0.705 }], hour, now);
    assert.ok(week.usedUp > now + 24 * hour && week.usedUp < now + 3 * 24 * hour, 'the third day has 2.115 dollars: ' + (week.usedUp - now) / hour);
  });

  test('labels of an axis have their room, and amounts the same number of decimals', async () => {
    const { byHourOrDay, sameDecimals, tickEvery } = await compiled('ui/axis.ts');
    assert.deepEqual([[0], [3600, 7200], [0, 86400], [60, 3660], [0, 2160], [0, 64800]].map(byHourOrDay), [true, true, true, false, false, false]); // a forecast that begins at a whole hour has no hours
    for (const [points, axis, label] of [[81, 160, 104], [81, 700, 104], [31, 250, 64], [2, 250, 64], [1, 50, 64], [400, 900, 64]]) {
      const at = tickEvery(points, axis, label);
      assert.ok(at.length > 0 && at.every((i) => i >= 0 && i < points), String(at));
      assert.ok(at.every((i, n) => n === 0 || ((i - at[n - 1]) / points) * axis >= label - 1), points + ': ' + at);
    }
    assert.deepEqual(sameDecimals(['$0', '$0.2', '$0.25', '$1.00']), ['$0', '$0.20', '$0.25', '$1.00']);
    assert.deepEqual(sameDecimals(['0 s', '500 ms']), ['0 s', '500 ms']);
  });

  test('usage leaves no row of the previous grouping', async () => {
    const page = await open({ role: 'owner', path: '/console/usage?range=7d&by=key&then=model' });
    const rows = page.getByRole('table', { name: 'Sums' }).locator('tbody tr');
    await rows.nth(3).waitFor();
    await page.getByLabel('And by').selectOption('');
    const { sums } = await api('/usage?group=key');
    await page.waitForFunction((n) => document.querySelectorAll('table[aria-label="Sums"] tbody tr').length <= n, sums.length);
    const texts = await rows.locator('td:first-child').allInnerTexts();
    assert.equal(new Set(texts).size, texts.length, texts.join(', '));
    await close(page);
  });
}
