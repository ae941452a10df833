/** `GET /session/verify` as Traefik and Caddy call it: with the browser's headers, and its method and path in others. */
import { decodeJwt } from 'jose';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { ACCEPT_HTML, ACCEPT_JSON, JSON_BODY, sendRequest } from '../../support/send-request.ts';
import { sessionOf } from '../grants/storage-access.ts';

let site: TestSite;
beforeAll(async () => {
  site = await startSite({ env: { TRUSTED_PROXIES: '127.0.0.1' } });
});
afterAll(() => site.close());

const verify = (headers: Record<string, string>) =>
  sendRequest(`${site.url}/session/verify?audience=reports`, {
    headers: {
      'x-forwarded-method': 'POST',
      'x-forwarded-uri': '/reports/new',
      'x-forwarded-proto': 'http',
      'x-forwarded-host': new URL(site.url).host,
      'x-forwarded-for': '198.51.100.7',
      ...headers,
    },
  });

test.each([
  ['page of another host', { ...ACCEPT_HTML, host: 'gatehouse:3000' }, 'text/html'],
  ['form of another host', { ...ACCEPT_HTML, ...JSON_BODY, origin: 'https://reports.example.com' }, 'text/html'],
  ['request for data', ACCEPT_JSON, 'application/problem+json'],
])(
  'verifies a %s with an assertion about the signed-in user, or responds 401 in the requested format',
  async (_name, headers, form) => {
    const { agent } = await signIn(site);
    const { userId } = await sessionOf(site, agent);
    const good = await verify({ ...headers, cookie: agent.cookies.header(site.url) });
    expect([good.status, good.body]).toEqual([200, '']);
    const claims = decodeJwt(String(good.headers['gatehouse-user-assertion']));
    expect(claims).toMatchObject({ sub: userId, aud: 'reports', iss: site.url });

    const none = await verify(headers);
    expect(none.status).toBe(401);
    expect(none.headers['content-type']).toContain(form);
    expect(none.headers['gatehouse-user-assertion']).toBeUndefined();
  },
);
