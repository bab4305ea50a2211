// The banner while a capture is attached.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allPages, api, close, findViolations, gateway, go, open, settled, shots } from '../kit.mjs';

export function tests() {
  test('every page says that a capture is attached, and none shows the text of a request', async () => {
    const detach = await gateway.capture('--model', 'smart');
    try {
      const page = await open({ role: 'owner' });
      const banner = page.getByRole('status').filter({ hasText: 'A capture is attached' });
      await banner.getByText('exchanges of the model smart').waitFor();
      const text = 'the words of a customer';
      await gateway.send(gateway.clients[1], 'smart', text);
      for (const [what, path] of Object.entries(await allPages())) {
        await go(page, path);
        await settled(page);
        assert.equal(await banner.count(), 1, what);
        assert.ok(!(await page.content()).includes(text), what);
      }
      const { requests } = await api('/requests?model=smart&limit=1');
      await go(page, '/console/exchanges/' + requests[0].id);
      await page.getByRole('heading', { name: 'Attempts' }).waitFor();
      assert.ok(!(await page.content()).includes(text));
      await page.setViewportSize({ width: 375, height: 900 });
      assert.deepEqual(await findViolations(page), []);
      await page.screenshot({ path: shots + 'capture-375-light.png' });

      const bound = await open({ role: 'billing of acme' });
      await bound.getByText('A capture is attached').waitFor();
      assert.equal(await bound.getByText('exchanges of the model').count(), 0); // may be another organisation's
      await close(bound);

      await detach();
      await banner.waitFor({ state: 'detached' }); // within the seconds between two calls of whoami
      const [entry] = (await api('/audit?action=capture&limit=1')).entries;
      assert.deepEqual([entry.outcome, JSON.parse(entry.detail).model], ['allowed', 'smart']);
      await close(page);
    } finally {
      await detach();
    }
  });
}
