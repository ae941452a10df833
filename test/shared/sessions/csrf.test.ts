/** R66 and R67: requests that another site, tab or program makes a browser send. */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { BROWSER_CHANGES, ROUTES } from '../../support/routes.ts';
import { ACCEPT_HTML, ACCEPT_JSON, FORM_BODY, JSON_BODY, sendRequest } from '../../support/send-request.ts';

let site: TestSite;
let cookie: string;
let csrf: string;
let foreignCsrf: string;
beforeAll(async () => {
  site = await startSite();
  const { agent } = await signIn(site);
  cookie = agent.cookies.header(site.url);
  csrf = String((await getJson(agent, `${site.url}/session`)).json.csrfToken);
  const other = await signIn(site, 'second@example.test');
  foreignCsrf = String((await getJson(other.agent, `${site.url}/session`)).json.csrfToken);
});
afterAll(() => site.close());

type Attack = () => { headers: Record<string, string>; body: string };
const formWithToken = () => `_csrf=${csrf}&bin=45717360`;
const ATTACKS: [string, Attack][] = [
  ['a form without the token', () => ({ headers: FORM_BODY, body: 'bin=45717360' })],
  ['an empty token', () => ({ headers: FORM_BODY, body: '_csrf=' })],
  ['a doubled token', () => ({ headers: FORM_BODY, body: `_csrf=${csrf}&_csrf=${csrf}` })],
  ["another user's token", () => ({ headers: FORM_BODY, body: `_csrf=${foreignCsrf}` })],
  [
    'a wrong header and the right field',
    () => ({ headers: { ...FORM_BODY, 'x-csrf-token': 'x' }, body: formWithToken() }),
  ],
  [
    'JSON that calls itself plain text',
    () => ({ headers: { 'content-type': 'text/plain' }, body: JSON.stringify({ _csrf: csrf }) }),
  ],
  ['JSON without a token', () => ({ headers: JSON_BODY, body: '{"bins":["45717360"]}' })],
  ['JSON with a token that is not a string', () => ({ headers: JSON_BODY, body: JSON.stringify({ _csrf: [csrf] }) })],
  ['a foreign Origin', () => ({ headers: { ...FORM_BODY, origin: 'https://evil.example' }, body: formWithToken() })],
  ['Origin null without Sec-Fetch-Site', () => ({ headers: { ...FORM_BODY, origin: 'null' }, body: formWithToken() })],
  [
    'Origin null from another site',
    () => ({ headers: { ...FORM_BODY, origin: 'null', 'sec-fetch-site': 'cross-site' }, body: formWithToken() }),
  ],
  [
    'our host with another scheme',
    () => ({ headers: { ...FORM_BODY, origin: site.url.replace('http:', 'https:') }, body: formWithToken() }),
  ],
  [
    'our host on another port',
    () => ({ headers: { ...FORM_BODY, origin: 'http://127.0.0.1:1' }, body: formWithToken() }),
  ],
  [
    'an Origin that begins like ours',
    () => ({ headers: { ...FORM_BODY, origin: `${site.url}.evil.example` }, body: formWithToken() }),
  ],
  [
    'cross-site Sec-Fetch',
    () => ({ headers: { ...FORM_BODY, 'sec-fetch-site': 'cross-site' }, body: formWithToken() }),
  ],
  [
    'cross-site Sec-Fetch of a navigation',
    () => ({
      headers: { ...FORM_BODY, 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' },
      body: formWithToken(),
    }),
  ],
  [
    'a sibling subdomain',
    () => ({
      headers: { ...FORM_BODY, origin: 'https://other.127.0.0.1', 'sec-fetch-site': 'same-site' },
      body: formWithToken(),
    }),
  ],
  [
    'same-site Sec-Fetch without an Origin',
    () => ({ headers: { ...FORM_BODY, 'sec-fetch-site': 'same-site' }, body: formWithToken() }),
  ],
];

describe('R66 state changes', () => {
  describe.each(BROWSER_CHANGES)('$method $pattern', ({ path }) => {
    test.each(ATTACKS)('%s: 403 csrf_failed', async (_name, attack) => {
      const { headers, body } = attack();
      const response = await sendRequest(site.url + path, {
        method: 'POST',
        headers: { ...ACCEPT_JSON, cookie, ...headers },
        body,
      });
      expect({ status: response.status, code: JSON.parse(response.body).code }).toEqual({
        status: 403,
        code: 'csrf_failed',
      });
    });
  });

  test.each<[string, Record<string, string>]>([
    ['foreign Origin', { origin: 'https://evil.example' }],
    ['foreign Sec-Fetch-Site', { 'sec-fetch-site': 'same-site' }],
    ['wrong or missing token', {}],
  ])('the response says what to do, and the log names the failed check: %s', async (words, headers) => {
    const { headers: foreignOrigin, body } = await sendRequest(`${site.url}/sign-out`, {
      method: 'POST',
      headers: { ...ACCEPT_JSON, ...FORM_BODY, cookie, ...headers },
      body: '',
    });
    expect(JSON.parse(body).detail).toBe(
      words.startsWith('foreign')
        ? `The request did not come from ${site.url}. Open the page there and try again.`
        : 'Go back to the page, reload it and try again.',
    );
    const lines = site.logs().filter((line) => line.includes(String(foreignOrigin['x-request-id'])));
    expect(lines.map((line) => JSON.parse(line))).toContainEqual(
      expect.objectContaining({ code: 'csrf_failed', detail: words }),
    );
  });

  test('refused requests change nothing', async () => {
    const { body } = await sendRequest(`${site.url}/connections`, { headers: { ...ACCEPT_JSON, cookie } });
    expect(JSON.parse(body)).toMatchObject({ items: [{ app: 'platform', health: 'active' }] });
  });

  test('a request with the token is accepted if it has our Origin or none, or hides it and Sec-Fetch-Site vouches for it', async () => {
    const origins = [
      undefined,
      site.url,
      'null',
      'NULL',
      '',
      `${site.url}/`,
      'http://127.0.0.1:1',
      'https://evil.example',
    ];
    const sites = [undefined, 'same-origin', 'Same-Origin', 'same-site', 'cross-site', 'none', ''];
    const tokens = [csrf, foreignCsrf, '', undefined];
    const text = fc.string({ unit: 'grapheme-ascii' });
    const request = fc.record({
      origin: fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...origins) }, text),
      fetchSite: fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...sites) }, text),
      sentToken: fc.constantFrom(...tokens),
    });
    const examples = origins.flatMap((origin) =>
      sites.flatMap((fetchSite) => tokens.map((sentToken) => [{ origin, fetchSite, sentToken }] as [Fetch])),
    );
    type Fetch = { origin: string | undefined; fetchSite: string | undefined; sentToken: string | undefined };
    const property = fc.asyncProperty(request, async ({ origin, fetchSite, sentToken }: Fetch) => {
      const { status } = await sendRequest(`${site.url}/bin`, {
        method: 'POST',
        headers: {
          ...{ ...ACCEPT_JSON, ...JSON_BODY, cookie },
          ...(origin !== undefined && { origin }),
          ...(fetchSite !== undefined && { 'sec-fetch-site': fetchSite }),
          ...(sentToken !== undefined && { 'x-csrf-token': sentToken }),
        },
        body: '{"bins":[]}',
      });
      const isOwn =
        (origin === undefined || origin === site.url || (origin === 'null' && fetchSite === 'same-origin')) &&
        (fetchSite === undefined || fetchSite === 'same-origin');
      expect(status === 403).toBe(!isOwn || sentToken !== csrf);
    });
    await fc.assert(property, { examples, numRuns: examples.length + 200 });
  });

  test('a token in the URL is not accepted', async () => {
    const response = await sendRequest(`${site.url}/bin?_csrf=${csrf}`, {
      method: 'POST',
      headers: { ...ACCEPT_JSON, cookie, ...JSON_BODY },
      body: '{"bins":["45717360"]}',
    });
    expect(response.status).toBe(403);
  });

  const binsBody = JSON.stringify({ bins: ['45717360'] });
  const sameOrigin = () => ({ cookie, origin: site.url, 'sec-fetch-site': 'same-origin' });
  test.each([
    [
      'the header',
      () => ({ headers: { ...ACCEPT_JSON, ...JSON_BODY, ...sameOrigin(), 'x-csrf-token': csrf }, body: binsBody }),
    ],
    [
      'the header of a program, which sends no Origin',
      () => ({ headers: { ...ACCEPT_JSON, ...JSON_BODY, cookie, 'x-csrf-token': csrf }, body: binsBody }),
    ],
    [
      'the field of a form',
      () => ({ headers: { ...ACCEPT_HTML, ...FORM_BODY, ...sameOrigin() }, body: formWithToken() }),
    ],
    [
      'the field of JSON',
      () => ({
        headers: { ...ACCEPT_JSON, ...JSON_BODY, ...sameOrigin() },
        body: JSON.stringify({ bins: ['45717360'], _csrf: csrf }),
      }),
    ],
  ])('%s is accepted', async (_name, good) => {
    const { status } = await sendRequest(`${site.url}/bin`, { method: 'POST', ...good() });
    expect([200, 303]).toContain(status);
  });

  test('the token of an ended session is not accepted in the next one', async () => {
    const { agent } = await signIn(site);
    const stale = csrf;
    const response = await sendRequest(`${site.url}/bin`, {
      method: 'POST',
      headers: { ...ACCEPT_JSON, ...JSON_BODY, cookie: agent.cookies.header(site.url), 'x-csrf-token': stale },
      body: binsBody,
    });
    expect(response.status).toBe(403);
  });
});

/** The headers of a request to `/session/verify` are those of a request to the service behind the proxy (R77). */
const READ_BY_BROWSERS = ROUTES.filter(({ method, path }) => method === 'GET' && path !== '/session/verify');

describe('R66 safe methods', () => {
  test.each(READ_BY_BROWSERS)('$path: another site cannot read it, but can link to it', async ({ path }) => {
    const read = await sendRequest(site.url + path, {
      headers: { ...ACCEPT_JSON, cookie, 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' },
    });
    expect([read.status, JSON.parse(read.body).code]).toEqual([403, 'csrf_failed']);
    const link = await sendRequest(site.url + path, {
      headers: { ...ACCEPT_HTML, cookie, 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' },
    });
    expect(link.status).not.toBe(403);
  });

  test('/session/verify: another site gets a response that its browser keeps from it', async () => {
    for (const mode of ['no-cors', 'cors']) {
      const { status, body, headers } = await sendRequest(`${site.url}/session/verify`, {
        headers: { accept: '*/*', cookie, 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': mode },
      });
      expect([status, body, headers['cross-origin-resource-policy']]).toEqual([200, '', 'same-origin']);
      expect(headers).not.toHaveProperty('access-control-allow-origin');
    }
  });
});

describe('R137 a page that is loaded into another one is refused', () => {
  /** Sec-Fetch-Dest of documents that are shown inside another one (Fetch Standard, section 2.2.5). */
  const FRAMED = ['iframe', 'frame', 'embed', 'object', 'fencedframe'];
  const navigation = (dest: string, fetchSite: string) => ({
    ...{ ...ACCEPT_HTML, 'sec-fetch-mode': 'navigate' },
    ...{ 'sec-fetch-dest': dest, 'sec-fetch-site': fetchSite },
  });

  test.each(READ_BY_BROWSERS)('$path', async ({ path }) => {
    const statuses: Record<string, number> = {};
    for (const dest of [...FRAMED, 'document']) {
      const { status, body } = await sendRequest(site.url + path, {
        headers: { ...navigation(dest, 'cross-site'), cookie },
      });
      statuses[dest] = status;
      if (status === 403) expect(body).toContain('inside another page');
    }
    const { document: opened, ...framed } = statuses;
    expect(framed).toEqual(Object.fromEntries(FRAMED.map((dest) => [dest, 403])));
    expect(opened).not.toBe(403);
  });

  test.each(['cross-site', 'same-site', 'same-origin', 'none'])('from a frame that is %s', async (fetchSite) => {
    for (const dest of FRAMED)
      expect((await sendRequest(site.url, { headers: navigation(dest, fetchSite) })).status).toBe(403);
    expect((await sendRequest(site.url, { headers: navigation('document', fetchSite) })).status).toBe(200);
  });
});

describe('R67 no CORS headers for any origin', () => {
  test.each(['null', 'https://evil.example', 'SELF.evil.example', 'https://evilSELF', 'SELF'])(
    'Origin: %s',
    async (origin) => {
      const sent = origin.replace('SELF', site.url);
      for (const { method, path } of ROUTES) {
        for (const sentMethod of [method, 'OPTIONS']) {
          const response = await sendRequest(site.url + path, {
            method: sentMethod,
            headers: { ...ACCEPT_JSON, cookie, origin: sent, 'access-control-request-method': 'POST' },
          });
          const allowed = Object.keys(response.headers).filter((name) => name.startsWith('access-control-'));
          expect(allowed, `${sentMethod} ${path}`).toEqual([]);
        }
      }
    },
  );
});
