/** The advice of the doctor is fully visible, also on a phone. */
import { expect, test } from 'vitest';
import { useBrowser } from '../support/browser.ts';
import { sandboxApp, startSite } from '../support/gatehouse.ts';
import { checkOnAllScreens, navigateBy, signInWithBrowser } from '../support/journey.ts';

const openPage = useBrowser();

test('no advice of a check is cut off', async () => {
  const site = await startSite({
    apps: (urls) => [
      sandboxApp(urls, 'platform'),
      sandboxApp(urls, 'second', { callbackUrls: ['https://other.example.com/cb'], signIn: undefined }),
    ],
    env: { ADMIN_APP: 'platform' },
  });
  try {
    const page = await openPage();
    await signInWithBrowser(page, site, 'admin@example.test');
    await page.goto(`${site.url}/admin/connected-apps/second/settings`);
    await navigateBy(page, () => page.getByRole('button', { name: 'Check now' }).click());
    const advice = page.locator('td strong');
    expect(await advice.first().textContent()).toContain('/oauth/callback/second to the callback URLs');
    for (const width of [1440, 360]) {
      await page.setViewportSize({ width, height: 800 });
      const cut = await page.evaluate(
        "[...document.querySelectorAll('td bdi')].filter((cell) => cell.scrollHeight > cell.clientHeight + 1).length",
      );
      expect([width, cut]).toEqual([width, 0]);
    }
    await checkOnAllScreens(page, 'doctor');
  } finally {
    await site.close();
  }
});
