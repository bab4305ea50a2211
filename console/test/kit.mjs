// What the tests of all pages share: one gateway with traffic, one browser, and helpers.
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import typescript from 'typescript';
import { Gateway, openBrowser, patience } from './rig.mjs';

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
export const shots = new URL('../shots/', import.meta.url).pathname;

export let gateway, browser;

// start starts the gateway and the browser. Without traffic there is only the key of the owner.
export async function start({ rows = 0, traffic = true } = {}) {
  await mkdir(shots, { recursive: true });
  gateway = await Gateway.start({ rows });
  if (traffic) await gateway.fill();
  else gateway.keys = { owner: await gateway.createKey('--role', 'owner', '--name', 'root') };
  browser = await openBrowser();
}

export async function stop() {
  await browser?.close();
  await gateway?.stop();
}

// open returns a page of the console. What the browser reports as an error fails the test.
export async function open({ path = '/', dark = false, width = 1280, role, from = gateway } = {}) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: dark ? 'dark' : 'light', acceptDownloads: true, timezoneId: 'Europe/Paris', locale: 'en-GB' });
  const page = await context.newPage();
  page.setDefaultTimeout(patience);
  page.errors = [];
  page.on('pageerror', (e) => page.errors.push(String(e)));
  page.on('dialog', (d) => { page.errors.push('dialog: ' + d.message()); void d.dismiss(); });
  page.on('console', (m) => { if (m.type() === 'error' && !/status of (4|5)\d\d/.test(m.text())) page.errors.push(m.text()); });
  page.on('request', (r) => { if (!r.url().startsWith(from.admin) && !r.url().startsWith(from.provider.url) && !/^(data|blob):/.test(r.url())) page.errors.push('request to ' + r.url()); });
  await page.goto(from.admin + path);
  if (role) {
    await page.getByLabel("Operator's key").fill(gateway.keys[role]);
    await page.getByRole('button', { name: 'Use this key' }).click();
    await page.locator('#content h1').waitFor(); // not that of the sign-in
  }
  return page;
}

export async function close(page) {
  await page.context().close();
  assert.deepEqual(page.errors, []);
}

// go opens another page of the console, as a link does. A reload would forget the key.
export const go = (page, path) => page.evaluate((to) => { history.pushState(null, '', to); dispatchEvent(new PopStateEvent('popstate')); }, path);

export const settled = (page) => page.waitForFunction(() => !document.querySelector('.loading'));

export async function findViolations(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  return violations.flatMap((v) => v.nodes.map((n) => v.id + ': ' + n.target.join(' ') + ' ' + n.failureSummary));
}

export const api = async (path, role = 'owner') => (await gateway.api(gateway.keys[role], path)).json();
export const retriedRequest = async () => (await api('/requests?model=careful&org=acme&limit=1000')).requests.find((r) => r.attempts.length > 1);

// compiled returns a module of the console that needs no browser.
export async function compiled(path) {
  const [folder, file] = [new URL('../src/' + path.slice(0, path.lastIndexOf('/') + 1), import.meta.url), path.split('/').pop()];
  const dir = await mkdtemp(join(tmpdir(), 'isogloss-module-'));
  try {
    for (const name of (await readdir(folder)).filter((name) => name.endsWith('.ts'))) { // those that it imports
      const { outputText } = typescript.transpileModule(await readFile(new URL(name, folder), 'utf8'), { compilerOptions: { module: 'esnext', target: 'es2022' } });
      await writeFile(join(dir, name.replace('.ts', '.mjs')), outputText.replaceAll(/from '(\.\/[\w-]+)'/g, "from '$1.mjs'"));
    }
    return await import(pathToFileURL(join(dir, file.replace('.ts', '.mjs'))));
  } finally {
    await rm(dir, { recursive: true });
  }
}

// screens has the path of each screen by name. The files in pages export theirs.
export const screens = {};

// allPages returns the paths of all screens.
export async function allPages() {
  const paths = {};
  for (const [name, path] of Object.entries(screens)) paths[name] = typeof path === 'string' ? path : await path();
  return paths;
}
