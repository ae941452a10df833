/** Every file that a page, a style sheet or a script loads has a versioned URL, so browsers may cache it for a year. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sharedAssets } from '../../../src/shared/pages/assets.ts';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { sendRequest } from '../../support/send-request.ts';

let site: TestSite;
let cookie: string;
beforeAll(async () => {
  site = await startSite();
  const { agent } = await signIn(site, 'admin@example.test');
  cookie = agent.cookies.header(site.url);
});
afterAll(() => site.close());

const PAGES = [
  '/',
  '/bin',
  '/connections',
  '/docs',
  '/nothing',
  '/admin',
  '/admin/users',
  '/admin/register-app',
  '/admin/bin',
];

/** Returns the URLs of what the page, the style sheet or the script at this URL loads. */
async function loadedBy(url: string): Promise<URL[]> {
  const { headers, body } = await sendRequest(url, { headers: { accept: 'text/html', cookie } });
  const reference = headers['content-type']?.startsWith('text/css')
    ? /url\("?([^")]+)"?\)/g
    : headers['content-type']?.startsWith('text/javascript')
      ? /^import .* from '([^']+)';$/gm
      : /<(?:link|script|img)\b[^>]*?(?:href|src)="([^"]+)"/g;
  return [...body.matchAll(reference)]
    .map(([, address]) => new URL(String(address), url))
    .filter(({ protocol }) => protocol !== 'data:');
}

test('assets of pages, and icons and imports of their style sheets and scripts, are kept for a year', async () => {
  const seen = new Set<string>();
  const waiting = PAGES.map((path) => site.url + path);
  for (let url = waiting.pop(); url !== undefined; url = waiting.pop()) {
    for (const { href } of await loadedBy(url)) {
      if (seen.has(href)) continue;
      seen.add(href);
      if (/\.(css|js)$/.test(href)) waiting.push(href);
    }
  }
  expect([...seen].some((href) => href.endsWith('/pico.css'))).toBe(true);
  expect([...seen].some((href) => href.endsWith('/checked-input.js'))).toBe(true);
  expect([...seen].filter((href) => href.endsWith('.svg')).length).toBeGreaterThan(20);
  for (const href of seen) {
    expect(href.startsWith(`${site.url}${sharedAssets().path}/`), href).toBe(true);
    const { status, headers } = await sendRequest(href);
    expect([status, headers['cache-control']], href).toEqual([200, 'public, max-age=31536000, immutable']);
  }
});
