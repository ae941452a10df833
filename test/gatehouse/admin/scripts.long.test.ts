/** The scripts of the administration that a timer continues, in a real browser. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { useBrowser } from '../../support/browser.ts';
import { type FilledSite, startFilledSite } from './filled-site.ts';

const openPage = useBrowser();
let filled: FilledSite;
beforeAll(async () => {
  filled = await startFilledSite();
});
afterAll(() => filled?.close());

const page = (content: string, script: string) =>
  `<!doctype html><title>Page</title><main>${content}</main><script type="module" src="/assets/aaaaaaaaaaaaaaaa/${script}"></script>`;

test('a button says "Copied" for a few seconds, and then what it said before', async () => {
  const browserPage = await openPage();
  await browserPage.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  const button = '<button data-copy="The ID" hidden><span data-copy-label>Copy ID</span></button>';
  await browserPage.route('**/copy', (route) =>
    route.fulfill({
      contentType: 'text/html',
      body: page(`<code data-copy-source>a1</code>${button}<p data-copy-status></p>`, 'copy.js'),
    }),
  );
  await browserPage.goto(`${filled.site.url}/copy`);
  await browserPage.getByRole('button', { name: 'Copy ID' }).click();
  await browserPage.getByRole('button', { name: 'Copied' }).waitFor();
  await browserPage.getByRole('button', { name: 'Copy ID' }).waitFor();
  expect(await browserPage.locator('[data-copy-status]').innerText()).toBe('The ID is copied.');
});

test('a page with progress waits while no process responds, and loads anew once the work is done', async () => {
  const browserPage = await openPage({}, /503/);
  const responses = [
    { status: 200, body: page('<div data-progress>1 of 2</div>', 'progress.js') },
    { status: 503, body: page('Gatehouse is starting.', 'progress.js') },
    { status: 200, body: page('<div data-progress>2 of 2</div>', 'progress.js') },
    { status: 200, body: page('Done.', 'progress.js') },
  ];
  let requests = 0;
  await browserPage.route('**/progress', (route) => {
    const response = responses[Math.min(requests, responses.length - 1)];
    requests += 1;
    return route.fulfill({ contentType: 'text/html', ...response });
  });
  const loads: string[] = [];
  browserPage.on('load', async (loaded) => loads.push((await loaded.locator('main').innerText()).trim()));
  await browserPage.goto(`${filled.site.url}/progress`);
  await browserPage.getByText('2 of 2').waitFor();
  await browserPage.getByText('Done.').waitFor();
  await expect.poll(() => loads).toEqual(['1 of 2', 'Done.']);
});
