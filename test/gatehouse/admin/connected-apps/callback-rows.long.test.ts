/** The rows of callback URLs in a browser: by mouse, by keyboard, and by a pasted list. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { useBrowser } from '../../../support/browser.ts';
import { CLIENT_SECRET, getJson, sandboxApp, signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';
import { checkOnAllScreens, navigateBy, signInWithBrowser } from '../../../support/journey.ts';
import { createAdminToken } from '../../../support/terminal.ts';

const openPage = useBrowser();
let site: TestSite;
beforeAll(async () => {
  site = await startSite();
  const token = await createAdminToken(site);
  const response = await fetch(`${site.url}/admin/api/connected-apps`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify(sandboxApp(site, 'second', { clientSecret: CLIENT_SECRET, signIn: undefined })),
  });
  expect(response.status).toBe(201);
});
afterAll(() => site?.close());

test('rows are added, removed and pasted, and what is odd is said while it is typed', async () => {
  const page = await openPage({ viewport: { width: 360, height: 800 } });
  const own = `${site.url}/oauth/callback/second`;
  const values = () =>
    page.locator('input[name="callbackUrl"]:visible').evaluateAll((inputs) => inputs.map(({ value }) => value));
  const input = (place: number) => page.getByLabel(`Callback URL ${place}`, { exact: true });
  const focusedLabel = () => page.evaluate<string>('document.activeElement.labels[0].textContent');
  await signInWithBrowser(page, site, 'admin@example.test');
  await page.goto(`${site.url}/admin/connected-apps/second/settings`);
  expect(await values()).toEqual([own]);

  const paste = async (place: number, text: string) => {
    await input(place).focus();
    await page.evaluate(`
      const clipboardData = new DataTransfer();
      clipboardData.setData('text', ${JSON.stringify(text)});
      document.activeElement.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }));
    `);
  };

  // By keyboard: the button after the last row adds one and goes there.
  await page.getByRole('button', { name: 'Add callback URL' }).focus();
  await page.keyboard.press('Enter');
  expect([await values(), await focusedLabel()]).toEqual([[own, ''], 'Callback URL 2']);
  await paste(2, 'https://a.example/1\r\nhttps://a.example/2, https://A.example/3\n');
  expect(await values()).toEqual([own, 'https://a.example/1', 'https://a.example/2', 'https://A.example/3']);
  await page.getByText('Browsers write this URL as https://a.example/3').waitFor();
  await page
    .getByText(/4 unsaved changes|3 unsaved changes/)
    .first()
    .waitFor();
  await checkOnAllScreens(page, 'callback-rows');
  await page.getByRole('button', { name: 'Use that URL' }).press('Enter');
  await page.locator('#callbackUrl .form-fault').waitFor({ state: 'detached' });

  await page.getByRole('button', { name: 'Remove Callback URL 3' }).press('Enter');
  expect([await values(), await focusedLabel()]).toEqual([
    [own, 'https://a.example/1', 'https://a.example/3'],
    'Callback URL 3',
  ]);
  await input(2).fill(`${own}/`);
  await page.getByText('Remove this URL.').waitFor();
  await input(2).fill('https://a.example/1');
  await page.locator('#callbackUrl .form-fault').waitFor({ state: 'detached' });
  await navigateBy(page, () => input(2).press('Enter'));
  expect(await values()).toEqual([own, 'https://a.example/1', 'https://a.example/3']);
  const { agent } = await signIn(site, 'admin@example.test');
  const { json } = await getJson(agent, `${site.url}/admin/api/connected-apps/second`);
  expect(json.callbackUrls).toEqual([own, 'https://a.example/1', 'https://a.example/3']);
});

test('a pasted list of hundreds of URLs is announced once, and its rows are numbered', async () => {
  const page = await openPage();
  await signInWithBrowser(page, site, 'admin@example.test');
  await page.goto(`${site.url}/admin/connected-apps/second/settings`);
  const text = Array.from({ length: 200 }, (_, index) => `https://a.example/${index}`).join('\n');
  const counts = await page.evaluate(`(() => {
    const labels = () => [...document.querySelectorAll('#callbackUrl [data-row-name]')];
    const rowsBefore = labels().length;
    let events = 0;
    document.addEventListener('input', () => { events += 1; });
    const clipboardData = new DataTransfer();
    clipboardData.setData('text', ${JSON.stringify(text)});
    const input = [...document.querySelectorAll('input[name="callbackUrl"]')].at(-1);
    input.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }));
    const last = document.activeElement;
    return { events, added: labels().length - rowsBefore, last: last.value, label: last.labels[0].textContent };
  })()`);
  expect(counts).toMatchObject({ events: 1, added: 200, last: 'https://a.example/199' });
  expect(counts).toHaveProperty('label', `Callback URL ${await page.locator('input[name="callbackUrl"]').count()}`);
});
