// The tests of the console: every file in pages exports its tests, and the paths of its screens.
// PAGES="keys teams" runs some of the files.
import { readdir } from 'node:fs/promises';
import { after, before, describe } from 'node:test';
import { screens, start, stop } from './kit.mjs';

const files = (await readdir(new URL('pages/', import.meta.url))).sort().map((file) => file.replace('.mjs', ''));
const names = ['looks', ...files.filter((name) => name !== 'looks')]; // screenshots show the gateway before the other tests change it
const chosen = process.env.PAGES ? process.env.PAGES.split(/[ ,]+/) : names;
const pages = await Promise.all(names.map(async (name) => ({ name, ...await import('./pages/' + name + '.mjs') })));
for (const page of pages) Object.assign(screens, page.screens);

before(() => start(), { timeout: 600_000 });
after(stop);

// The name of a suite is the command that repeats it.
for (const page of pages) {
  if (chosen.includes(page.name)) describe('make e2e-console PAGES=' + page.name, { timeout: 3_600_000 }, page.tests);
}
