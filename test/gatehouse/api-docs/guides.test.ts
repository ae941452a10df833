/** The documents at `/docs`: guides beside the reference, the same for everyone, compressed, and kept by browsers. */
import { get } from 'node:http';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { ACCEPT_HTML, sendRequest } from '../../support/send-request.ts';

let site: TestSite;
beforeAll(async () => {
  site = await startSite();
});
afterAll(() => site.close());

/** Gets a document as it is sent: no client decompresses it. */
async function bytesOf(path: string, headers: Record<string, string>) {
  const response = await new Promise<{ status: number; headers: NodeJS.Dict<string | string[]>; body: Buffer }>(
    (resolve, reject) =>
      get(site.url + path, { headers: { ...ACCEPT_HTML, ...headers } }, (incoming) => {
        const chunks: Buffer[] = [];
        incoming.on('data', (chunk) => chunks.push(chunk));
        incoming.on('end', () =>
          resolve({ status: incoming.statusCode ?? 0, headers: incoming.headers, body: Buffer.concat(chunks) }),
        );
      }).on('error', reject),
  );
  return response;
}

test.each(['/docs', '/docs/relay', '/openapi.json'])(
  '%s is compressed, and sent only once to a browser',
  async (path) => {
    const plain = await bytesOf(path, {});
    for (const [encoding, decompress] of [
      ['gzip', gunzipSync],
      ['br', brotliDecompressSync],
    ] as const) {
      const { headers, body } = await bytesOf(path, { 'accept-encoding': encoding });
      expect([headers['content-encoding'], headers.vary, headers['cache-control']]).toEqual([
        encoding,
        'Accept-Encoding',
        'no-cache',
      ]);
      expect(decompress(body).equals(plain.body)).toBe(true);
      expect(body.length).toBeLessThan(plain.body.length / 3);
      const again = await bytesOf(path, { 'accept-encoding': encoding, 'if-none-match': String(headers.etag) });
      expect([again.status, again.body.length]).toEqual([304, 0]);
    }
  },
);

test('a client that refuses an encoding, or asks for a part or the head, gets what it can read', async () => {
  const plain = await bytesOf('/docs', {});
  const withGzip = await bytesOf('/docs', { 'accept-encoding': 'gzip' });
  expect(withGzip.headers.etag).not.toBe(plain.headers.etag);
  expect(plain.headers.vary).toBe('Accept-Encoding');
  for (const accepted of [
    'identity',
    '*;q=0, identity',
    'br;q=0, gzip;q=0',
    'br;q=0, *;q=0',
    'identity, *;q=0, br;q=0',
    '',
  ]) {
    const { status, headers, body } = await bytesOf('/docs', { 'accept-encoding': accepted });
    expect([accepted, status, headers['content-encoding']]).toEqual([accepted, 200, undefined]);
    expect(body.equals(plain.body)).toBe(true);
  }
  const part = await bytesOf('/docs', { range: 'bytes=0-9', 'accept-encoding': 'gzip' });
  expect([part.status, part.body.equals(withGzip.body)]).toEqual([200, true]);
  // The tag of another encoding is no proof that the browser has this one.
  const other = await bytesOf('/docs', { 'accept-encoding': 'br', 'if-none-match': String(withGzip.headers.etag) });
  expect([other.status, other.headers['content-encoding']]).toEqual([200, 'br']);
  const head = await sendRequest(`${site.url}/docs`, { method: 'HEAD', headers: { 'accept-encoding': 'gzip' } });
  expect([head.status, head.headers['content-length'], head.headers.etag]).toEqual([
    200,
    String(withGzip.body.length),
    withGzip.headers.etag,
  ]);
});

test('the files of pages are compressed, and pages of users are not', async () => {
  const { body } = await sendRequest(`${site.url}/docs`);
  const [style = ''] = /\/assets\/\w+\/gatehouse\.css/.exec(body) ?? [];
  expect((await bytesOf(style, { 'accept-encoding': 'br' })).headers['content-encoding']).toBe('br');
  const { agent } = await signIn(site);
  const cookie = agent.cookies.header(site.url);
  const home = await bytesOf('/', { cookie, 'accept-encoding': 'gzip, br' });
  expect([home.status, home.headers['content-encoding'], home.headers['cache-control']]).toEqual([
    200,
    undefined,
    'no-store',
  ]);
  // Nothing of the session is on a page that is compressed.
  expect((await bytesOf('/docs', { cookie })).body.equals(Buffer.from(body))).toBe(true);
});

test('a guide has one address, since its links are relative to it', async () => {
  const { status, headers } = await sendRequest(`${site.url}/docs/tutorial/`, { headers: ACCEPT_HTML });
  const location = new URL(String(headers.location), `${site.url}/docs/tutorial/`).href;
  expect([status, location]).toEqual([308, `${site.url}/docs/tutorial`]);
});

test('the menu leads to every guide, and each link of a guide to an anchor that exists', async () => {
  const { body } = await sendRequest(`${site.url}/docs`);
  const paths = [...body.matchAll(/href="(\/docs\/[\w-]+)"/g)].map(([, path = '']) => path);
  expect(paths.length).toBeGreaterThan(5);
  const pages = new Map<string, string>();
  for (const path of paths) {
    const { status, body: guide } = await sendRequest(site.url + path, { headers: ACCEPT_HTML });
    expect([path, status]).toEqual([path, 200]);
    expect(guide.match(/<h1/g)?.length, path).toBe(1);
    pages.set(path, guide);
  }
  const links = [...pages].flatMap(([path, guide]) =>
    [...guide.slice(guide.indexOf('<article')).matchAll(/<a href="(?!https?:|mailto:|\/)([^"]*)"/g)].map(
      ([, href = '']) => new URL(href, `${site.url}${path}`),
    ),
  );
  expect(links.length).toBeGreaterThan(20);
  const broken = links.filter(({ pathname, hash }) => {
    const guide = pages.get(pathname);
    return guide === undefined || (hash !== '' && !guide.includes(`id="${decodeURIComponent(hash.slice(1))}"`));
  });
  expect(broken.map(({ href }) => href)).toEqual([]);
});

test('a block has the name of its file above it, but not that of an example', async () => {
  const guide = async (name: string) => (await sendRequest(`${site.url}/docs/${name}`, { headers: ACCEPT_HTML })).body;
  expect(await guide('your-front-end')).toContain('<p class="fine"><code>gatehouse.js</code></p>');
  expect(await guide('relay')).not.toContain('<p class="fine"><code>curl</code></p>');
});

test('no other file is served', async () => {
  for (const path of ['/docs/security', '/docs/relay.md', '/docs/..%2Fpackage', '/docs/constructor'])
    expect([path, (await sendRequest(site.url + path)).status]).toEqual([path, 404]);
});
