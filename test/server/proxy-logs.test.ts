/** The nginx of docs/deploy.md and compose.yaml: uploads, base paths, and logs of every request without its secrets. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { signIn, startSite, type TestSite } from '../support/gatehouse.ts';
import { skipIfMissing } from '../support/missing.ts';
import { missingNginx, startNginx } from '../support/nginx.ts';
import { freePort } from '../support/ports.ts';
import { ACCEPT_JSON, type ReceivedResponse, sendRequest } from '../support/send-request.ts';
import { CARD_NUMBERS, REQUESTS, SECRETS } from './logged-requests.ts';
import { writtenTo } from './shown-steps.ts';

const CSV = { 'content-type': 'text/csv' };
const root = join(import.meta.dirname, '..', '..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');

describe.each([
  ['docs/deploy.md', writtenTo(read('docs/deploy.md'), '/etc/nginx/conf.d/gatehouse.conf')],
  ['compose.yaml', (read('compose.yaml').split(/^ {4}content: \|\n/m)[1] ?? '').replaceAll('$$', '$')],
])('the nginx of %s', (_name, documented) => {
  let site: TestSite;
  beforeAll(async () => {
    const port = await freePort();
    const publicPort = await freePort();
    const env = { PORT: String(port), PUBLIC_URL: `http://127.0.0.1:${publicPort}`, TRUSTED_PROXIES: '127.0.0.1' };
    site = await startSite({ env });
  });
  afterAll(() => site?.close());

  /** The documented settings with other addresses and without TLS, for a running process and a dead one. */
  const settings = (deadPort: number, plainPort: number, { url, env } = site) =>
    documented
      .replace(/^ *(resolver|server_name|ssl_\w+) .*$/gm, '')
      .replace(
        /( *server )(127\.0\.0\.1:3000|gatehouse:3000 resolve)( max_fails=0;)/,
        `$1127.0.0.1:${env.PORT}$3$1127.0.0.1:${deadPort}$3`,
      )
      .replace(/^ *server 127\.0\.0\.1:3001 .*$/m, '')
      .replace(/^ *listen \[::\]:.*$/gm, '')
      .replace(/listen (443 ssl http2|8080)/, `listen ${new URL(url).host}`)
      .replace('listen 80;', `listen 127.0.0.1:${plainPort};`);

  test('accepts uploads of BIN data, with and without a path in PUBLIC_URL, and no other request of that size', async (context) => {
    skipIfMissing(context, missingNginx);
    const nginx = await startNginx(
      settings(await freePort(), await freePort()),
      async () => (await sendRequest(site.url)).status > 0,
    );
    try {
      const statuses = [];
      const body = 'x'.repeat(1_100_000);
      for (const path of ['/admin/bin/import', '/auth/admin/bin/import', '/auth/admin/api/bin/uploads', '/sign-in']) {
        const headers = { ...ACCEPT_JSON, ...CSV };
        const { status } = await sendRequest(`${site.url}${path}`, { method: 'POST', headers, body });
        statuses.push(status);
      }
      expect(statuses.map((status) => status === 413)).toEqual([false, false, false, true]);
    } finally {
      await nginx.stop();
    }
  });

  // docs/deploy.md: `location` has the path of PUBLIC_URL, if pages of the site are on the host, too.
  test.for(['/', '/auth/'])(
    'serves Gatehouse at a path of the host, with the location %s',
    async (location, context) => {
      skipIfMissing(context, missingNginx);
      const [port, publicPort] = [await freePort(), await freePort()];
      const origin = `http://127.0.0.1:${publicPort}`;
      const below = await startSite({
        env: { PORT: String(port), PUBLIC_URL: `${origin}/auth`, TRUSTED_PROXIES: '127.0.0.1' },
      });
      const nginx = await startNginx(
        settings(await freePort(), await freePort(), below).replace('location / {\n', `location ${location} {\n`),
        async () => (await sendRequest(origin)).status > 0,
      );
      try {
        const { agent, page } = await signIn(below);
        expect([page.url, page.status]).toEqual([`${origin}/auth/`, 200]);
        const paths = [...page.body.matchAll(/(?:href|src|action)="([^"#]*)"/g)].map(([, path]) => String(path));
        expect(paths.filter((path) => !path.startsWith('/auth/'))).toEqual([]);
        const stylesheet = paths.find((path) => path.endsWith('.css'));
        const css = await sendRequest(`${origin}${stylesheet}`, { headers: { 'accept-encoding': 'gzip' } });
        expect([css.status, css.headers['content-encoding']]).toEqual([200, 'gzip']);
        const session = await agent.get(`${origin}/auth/session`, { headers: ACCEPT_JSON });
        expect(JSON.parse(session.body)).toMatchObject({ signedIn: true });
        const signedOut = await agent.submit(page, {}, { button: 'Sign out' });
        expect(signedOut.url).not.toContain(`${origin}/sign-out`);
        expect((await agent.get(`${origin}/auth/connections`, { follow: false })).headers.get('location')).toBe(
          '/auth/sign-in?return_to=%2Fauth%2Fconnections',
        );
        expect(below.logs().filter((line) => line.includes('PUBLIC_URL'))).toEqual([]);
      } finally {
        await nginx.stop();
        await below.close();
      }
    },
  );

  test('R108 logs no card number, code, state or token, even if a process is dead, and the request id', async (context) => {
    skipIfMissing(context, missingNginx);
    const headers = {
      authorization: 'Bearer the-other-token',
      accept: 'application/json',
      referer: `${site.url}/?code=the-code`,
    };
    const plainPort = await freePort();
    const nginx = await startNginx(
      settings(await freePort(), plainPort),
      async () => (await sendRequest(site.url)).status > 0,
    );
    const responses: [ReceivedResponse, string][] = [];
    for (const [target, logged] of REQUESTS) {
      // Both processes in turn: nginx skips the dead one, and writes that into its error log.
      for (let count = 0; count < 4; count += 1)
        responses.push([await sendRequest(site.url, { target, headers }), logged]);
    }
    if (documented.includes('listen 80;')) {
      const redirected = await sendRequest(`http://127.0.0.1:${plainPort}/bin/4571736012345678?code=the-code`, {
        headers,
      });
      expect([redirected.status, redirected.headers.location]).toEqual([308, expect.stringMatching(/^https:/)]);
    }
    await site.close();
    const failed = await sendRequest(site.url, { target: '/bin/4571736012345678?code=the-code', headers });
    expect(failed.status).toBe(502);

    const log = await nginx.stop();

    // Ids are random, and may hold any digits.
    expect(log.replaceAll(/[0-9a-f-]{36}/g, '').match(/\d{9}|[４５７]|%/)).toBeNull();

    for (const secret of [...SECRETS, ...CARD_NUMBERS, encodeURIComponent(CARD_NUMBERS[1] ?? '')])
      expect(log).not.toContain(secret);
    const lines = log.split('\n');
    for (const [{ headers: responseHeaders, status }, logged] of responses) {
      const id = responseHeaders['x-request-id'];
      const line = lines.find((text) => id !== undefined && text.includes(String(id)));
      expect(line, `${status} ${logged}`).toContain(` GET ${logged} ${status} `);
    }
    expect(lines.filter((line) => line.includes(' GET /bin/... 502 ')).length).toBe(1);
  });
});
