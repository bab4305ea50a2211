// Takes the pictures of the documentation: make console-pictures.
import { mkdir } from 'node:fs/promises';
import { browser, gateway, go, retriedRequest, settled, start, stop } from './kit.mjs';

const folder = new URL('../../docs/images/', import.meta.url).pathname;
await mkdir(folder, { recursive: true });
await start();
const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, colorScheme: 'light', timezoneId: 'UTC', locale: 'en-US' });
const page = await context.newPage();
await page.goto(gateway.admin + '/');
await page.getByLabel("Operator's key").fill(gateway.keys.owner);
await page.getByRole('button', { name: 'Use this key' }).click();
await page.getByRole('heading', { name: 'Overview' }).waitFor();
const take = async (name, path, prepare = async () => {}) => {
  await go(page, path);
  await settled(page);
  await prepare();
  await page.waitForTimeout(400); // charts draw in the next frame
  await page.screenshot({ path: folder + 'console-' + name + '.png' });
};
const { keys } = await (await gateway.api(gateway.keys.owner, '/keys?limit=1000')).json();
const translator = keys.find((k) => k.name === 'translator').id;
await take('overview', '/?range=7d');
await take('exchange', '/console/exchanges/' + (await retriedRequest()).id);
await take('translate', '/console/translate', async () => { await page.getByRole('region', { name: 'Gemini', exact: true }).waitFor(); });
await take('playground', `/console/playground?dialect=anthropic&model=smart&key=${translator}`, async () => {
  await page.getByLabel('Your message').fill('play: think');
  await page.keyboard.press('Control+Enter');
  await page.getByText('answered').first().waitFor();
  await page.evaluate(() => scrollTo(0, 0));
});
await context.close();
await stop();
