/** The tour: each fault switch and the reaction of Gatehouse, in a browser and without scripts. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { useBrowser } from '../support/browser.ts';
import { createUserAgent } from '../support/browserless.ts';
import { type Demo, endDemos, startDemo } from '../support/demo.ts';
import { completeProviderSignIn, expectFitsWindow, navigateBy } from '../support/journey.ts';

const openPage = useBrowser();
let demo: Demo;
let tour: string;
beforeAll(async () => {
  demo = await startDemo();
  await demo.program.printed('Ctrl+C');
  tour = /http:\S+\/tour/.exec(demo.program.stdout())?.[0] ?? '';
});
afterAll(endDemos);

const NO_MOTION = { reducedMotion: 'reduce' } as const;

test('after an access token expires early, Gatehouse refreshes it and repeats the call', async () => {
  const page = await openPage(NO_MOTION);
  await page.goto(tour);
  await navigateBy(page, () => page.getByRole('button', { name: 'Expire this token' }).click());
  const text = await page.locator('#expire').innerText();
  expect(text.replaceAll(/\s+/g, ' ')).toMatch(
    /ends the access token.*GET \/1\/threads\/current.*POST \/token.*GET \/1\/threads\/current.*GET \/relay\/threads\/current: 200/,
  );
  await page.setViewportSize({ width: 360, height: 800 });
  await expectFitsWindow(page);
});

test('the overview of the administration links to the tour', async () => {
  const page = await openPage(NO_MOTION);
  await page.goto(`${demo.url}/admin`);
  await completeProviderSignIn(page, demo, 'admin@example.test');
  await navigateBy(page, () => page.getByRole('link', { name: 'Take the tour' }).click());
  expect(page.url()).toBe(tour);
});

test('a connection stays during an outage, and works again afterwards', async () => {
  const page = await openPage(NO_MOTION);
  await page.goto(tour);
  const section = page.locator('#outage');
  await navigateBy(page, () => page.getByRole('button', { name: 'Make the provider fail' }).click());
  // The script fetches new audit entries.
  await expect
    .poll(() => section.innerText())
    .toMatch(/responds with 503[\s\S]*Refresh failed[\s\S]*503 provider_unavailable/);
  // The outage also affects sign-in.
  const user = createUserAgent();
  expect((await user.get(`${demo.url}/sign-in?app=platform`)).status).toBe(503);

  await navigateBy(page, () => page.getByRole('button', { name: 'Let the provider work again' }).click());
  expect(await section.innerText()).toContain('works again');
  await expect
    .poll(
      async () => {
        await navigateBy(page, () => section.getByRole('button', { name: 'Read the thread again' }).click());
        return section.innerText();
      },
      { interval: 3_000 },
    )
    .toMatch(/GET \/relay\/threads\/current: 200/);
});

test('no call fails after a rotation of keys, and the script shows events after the response', async () => {
  const page = await openPage(NO_MOTION);
  await page.goto(tour);
  await navigateBy(page, () => page.getByRole('button', { name: 'Rotate its keys' }).click());
  const readSection = () => page.locator('#keys').innerText();
  await expect.poll(readSection).toMatch(/signs with the new keys[\s\S]*GET \/relay\/threads\/current: 200/);
  expect(await readSection()).toContain('GET /jwks');
});

test('after a revocation, the connection of the user needs reconnecting, and webhooks receive a message', async () => {
  const page = await openPage(NO_MOTION);
  await page.goto(`${demo.url}/sign-in?app=platform`);
  await completeProviderSignIn(page, demo);
  await page.goto(tour);
  await navigateBy(page, () => page.getByRole('button', { name: 'Revoke the grant' }).click());
  const section = page.locator('#revoke');
  expect(await section.innerText()).toMatch(/for user@example.test[\s\S]*403 reconnect_needed/);
  await expect.poll(() => section.innerText()).toContain('Reconnect needed, grant_refused');
  await expect.poll(() => section.innerText()).toMatch(/Webhook to crm\s+connection.reconnect_needed: 204/);
  await page.goto(`${demo.url}/connections/platform`);
  expect(await page.locator('main').innerText()).toContain('The provider has ended this connection');
});

test('the tour works without scripts, and refuses requests from other sites', async () => {
  const agent = createUserAgent();
  const page = await agent.submit(await agent.get(tour), {}, { button: 'Expire this token' });
  expect(page.body).toContain('GET /relay/threads/current: 200');
  const foreign = await fetch(`${tour}/expire`, { method: 'POST', headers: { origin: 'https://elsewhere.example' } });
  expect(foreign.status).toBe(403);
});
