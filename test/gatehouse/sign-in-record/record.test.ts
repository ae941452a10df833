/** Every failed sign-in has a record, found by the reference on its page, with its steps and a named cause. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type BrokenResponse, status } from '../../support/broken-responses.ts';
import { createUserAgent, type Page, type UserAgent } from '../../support/browserless.ts';
import { getJson, sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { advanceClock } from '../../support/test-clock.ts';
import { attempt, begin, callbackFor, csrfTokenOf, type HostileSite, startHostileSite } from '../sign-in/attempt.ts';

interface SignIn {
  id: string;
  outcome: string | null;
  cause: { name: string; words: string; advice: string; field: string | null } | null;
  steps: { name: string; result: string; at: string | null; detail: string | null }[];
  references: string[];
  user: { id: string | null; email: string; presumed: boolean } | null;
}

let site: HostileSite;
let admin: UserAgent;
beforeAll(async () => {
  site = await startHostileSite({
    apps: (provider, url) => [
      provider.app(url),
      provider.app(url, { id: 'unlisted', signIn: undefined, callbackUrls: [`${url}/oauth/callback/unlister`] }),
    ],
  });
  site.provider.setModes({ claims: (claims) => ({ ...claims, groups: ['gatehouse-admins'] }) });
  admin = (await attempt(site)).agent;
});
beforeEach(() => site.provider.reset());
afterEach(() => site.provider.reset());
afterAll(() => site.close());

const read = async (reference: string, at: { url: string } = site, by = admin): Promise<SignIn> =>
  (await getJson(by, `${at.url}/admin/api/sign-ins/${reference}`)).json as unknown as SignIn;
const referenceOn = (page: Page) => /data-copy-source>([^<]+)</.exec(page.body)?.[1] ?? 'none';
const resultOf = ({ steps }: SignIn, name: string) => steps.find((step) => step.name === name)?.result;

/** Expects one failed step, and none reached after it. */
function expectStoppedAt(record: SignIn, name: string): void {
  const results = record.steps.map(({ result }) => result);
  expect(record.steps.filter(({ result }) => result === 'failed').map((step) => step.name)).toEqual([name]);
  expect(results.lastIndexOf('passed')).toBeLessThan(results.indexOf('failed'));
}

describe('the cause of a failure', () => {
  test('another browser: names the missing cookie, in the record of the start', async () => {
    const { location } = await begin(site);
    const record = await read(referenceOn(await createUserAgent().get((await callbackFor(location)).href)));
    expect(record.cause).toMatchObject({ name: 'cookie_missing' });
    expect(record.cause?.words).toContain('opened in another browser, or blocked as third-party');
    expect([resultOf(record, 'started'), resultOf(record, 'came_back')]).toEqual(['passed', 'passed']);
    expectStoppedAt(record, 'cookie');
    const other = (await begin(site)).agent;
    const second = await callbackFor((await begin(site)).location);
    const withOther = await read(referenceOn(await other.get(second.href)));
    expect(withOther.cause).toMatchObject({ name: 'other_browser' });
    // The page that is opened again has the reference of the first.
    expect(await read(referenceOn(await other.get(second.href)))).toEqual(withOther);
  });

  test('an expired state: says after how many minutes', async () => {
    const { agent, location } = await begin(site);
    advanceClock(11 * 60);
    await agent.get((await callbackFor(location)).href);
    advanceClock(-11 * 60);
    const { json } = await getJson(admin, `${site.url}/admin/api/sign-ins?limit=1`);
    const [{ cause } = {} as SignIn] = json.items as SignIn[];
    expect(cause).toMatchObject({ name: 'state_expired' });
    expect(cause?.words).toContain('after 11 minutes');
  });

  test('a wrong client secret: names the status, and the field to check', async () => {
    site.provider.setModes('token-invalid-client');
    const record = await read(referenceOn((await attempt(site)).page));
    expect(record.cause).toMatchObject({ name: 'wrong_client_secret', field: 'clientSecret' });
    expect(record.cause?.words).toContain('invalid_client');
    expectStoppedAt(record, 'token_endpoint');
    expect(record.steps.find(({ name }) => name === 'token_endpoint')?.detail).toContain('status 4');
    expect(site.logs().join('')).toMatch(/"detail":"misconfigured: client_refused 4\d\d[^"]*"/);
  });

  test('a clock behind the provider’s: says by how many seconds', async () => {
    const claims = (proper: Record<string, unknown>) => {
      const ahead = Math.floor(Date.now() / 1000) + 95;
      return { ...proper, iat: ahead, nbf: ahead };
    };
    site.provider.setModes({ claims });
    const record = await read(referenceOn((await attempt(site)).page));
    expect(record.cause).toMatchObject({ name: 'clock_skew' });
    expect(record.cause?.words).toMatch(/clock is 9[45] s behind the provider’s/);
    expectStoppedAt(record, 'id_token_times');
    expect(resultOf(record, 'token_endpoint')).toBe('passed');
  });

  test('a denied consent: the response passed, and the consent failed', async () => {
    site.provider.setModes('callback-access-denied');
    const { page } = await attempt(site);
    expect(page.body).toMatch(/<title>Consent was not given.*<h1>Consent was not given<\/h1>/s);
    const record = await read(referenceOn(page));
    expect(record).toMatchObject({ outcome: 'refused', cause: { name: 'access_denied', field: null } });
    const shown = (await admin.get(`${site.url}/admin/sign-ins/${record.id}`)).body;
    expect([shown.includes('class="button" href'), shown.includes('The user or the provider did not consent')]).toEqual(
      [false, true],
    );
    expect(shown).not.toContain('User and provider consented');
    expect(resultOf(record, 'authorization_response')).toBe('passed');
    expectStoppedAt(record, 'granted');
  });

  test('an unavailable provider: the token endpoint failed', async () => {
    site.provider.setModes('token-status-503');
    const record = await read(referenceOn((await attempt(site)).page));
    expect(record.cause).toMatchObject({ name: 'provider_unavailable', field: 'issuer' });
    expectStoppedAt(record, 'token_endpoint');
  });

  test('a callback URL that the provider does not know: the browser does not come back', async () => {
    const shown: TestSite = await startSite({
      apps: (parts) => [
        sandboxApp(parts, 'platform'),
        {
          ...sandboxApp(parts, 'platform'),
          id: 'unregistered',
          callbackUrls: [`${parts.url}/oauth/callback/unregistered`],
        },
      ],
      env: { ADMIN_APP: 'platform' },
    });
    try {
      const { agent: by } = await signIn(shown, 'admin@example.test', { path: '/sign-in?app=platform' });
      const page = await createUserAgent().get(`${shown.url}/sign-in?app=unregistered`);
      expect(page.url).toContain(shown.sandbox.issuer);
      const { json } = await getJson(by, `${shown.url}/admin/api/sign-ins?limit=1`);
      const [started] = json.items as SignIn[];
      expect(started).toMatchObject({ outcome: null, cause: null });
      advanceClock(180);
      const record = await read(started?.id ?? '', shown, by);
      advanceClock(-180);
      expect(record.cause).toMatchObject({ name: 'nothing_came_back', field: 'callbackUrls' });
      expect(record.cause?.words).toContain('the browser did not come back');
      expect([resultOf(record, 'sent'), resultOf(record, 'came_back')]).toEqual(['passed', 'not_reached']);
      expect(record.steps.find(({ name }) => name === 'sent')?.detail).toContain('character by character');
    } finally {
      await shown.close();
    }
  });
});

describe('the record names the provider’s error code and the field to check', () => {
  const recordOf = async (answer: BrokenResponse) => {
    site.provider.setModes({ responses: { token: answer } });
    const record = await read(referenceOn((await attempt(site)).page));
    expectStoppedAt(record, 'token_endpoint');
    return record;
  };

  test.each<[number, string, string, string]>([
    [200, 'incorrect_client_credentials', 'wrong_client_secret', 'clientSecret'],
    [200, 'bad_client_secret', 'wrong_client_secret', 'clientSecret'],
    [400, 'invalid_client_id', 'wrong_client_secret', 'clientSecret'],
    [401, 'unauthorized_client', 'wrong_client_secret', 'clientSecret'],
    [200, 'bad_verification_code', 'code_not_accepted', 'callbackUrls'],
    [400, 'redirect_uri_mismatch', 'code_not_accepted', 'callbackUrls'],
    [400, 'invalid_request', 'token_request_refused', 'tokenParameters'],
    [400, 'PKCE.not-supported', 'token_request_refused', 'tokenParameters'],
    [405, 'method_not_allowed', 'wrong_token_endpoint', 'tokenEndpoint'],
  ])('%i %s', async (code, error, name, field) => {
    const record = await recordOf(status(code, { ok: false, error }));
    expect(record.cause).toMatchObject({ name, field });
    expect(record.steps.find((step) => step.name === 'token_endpoint')?.detail).toContain(`status ${code}, ${error}`);
    if (code !== 405) expect(record.cause?.words).toContain(error);
    // The audit trail is written in the background.
    const entries = `${site.url}/admin/api/audit?event=sign_in.failed&text=${record.references.at(-1)}`;
    await expect.poll(async () => (await getJson(admin, entries)).json.items).toMatchObject([{ facts: { error } }]);
  });

  test('names the member of an unreadable token response', async () => {
    const record = await recordOf(status(200, { access_token: 'a', token_type: 'mac' }));
    expect(record.cause).toMatchObject({ name: 'token_response_malformed', field: 'tokenPath' });
    expect(record.cause?.words).toContain('token_type');
    const page = await admin.get(`${site.url}/admin/sign-ins/${record.id}`);
    expect(page.body).toMatch(/connected-apps\/elsewhere#tokenPath"><span>Open “Path of nested tokens”/);
  });

  test('escapes an error code on the page', async () => {
    const record = await recordOf(status(400, { error: '<b>&' }));
    const page = await admin.get(`${site.url}/admin/sign-ins/${record.id}`);
    expect(page.body).toContain('&lt;b&gt;&amp;');
    expect(page.body).not.toContain('<b>&');
  });
});

test('sends no request if the app lacks its callback URL, and names the nearest entry', async () => {
  const page = await admin.request(`${site.url}/connections/unlisted`, {
    method: 'POST',
    body: new URLSearchParams({ _csrf: await csrfTokenOf(site, admin) }),
  });
  expect(page.status).toBe(500);
  const reference = referenceOn(page);
  const line = site.logs().find((text) => text.includes(reference) && text.includes('"code":'));
  expect(line).toContain('"code":"app_misconfigured"');
  const record = await read(reference);
  expect(record.cause).toMatchObject({ name: 'unusable_app', field: 'callbackUrls' });
  const { detail } = record.steps.find(({ name }) => name === 'redirect_uri') ?? {};
  expect(detail).toContain(`nearest is ${site.url}/oauth/callback/unlister`);
  expect(detail).toContain('is "d" where the registered one has "r"');
});

describe('records', () => {
  test.each([
    ['id-token-wrong-iss', 'wrong_issuer', 'id_token_issuer'],
    ['id-token-wrong-aud', 'wrong_client_id', 'id_token_audience'],
    ['id-token-wrong-nonce', 'token_response_refused', 'id_token_nonce'],
    ['id-token-tampered', 'bad_signature', 'id_token_signature'],
  ] as const)('names the failed check of the ID token: %s', async (mode, cause, step) => {
    site.provider.setModes(mode);
    const record = await read(referenceOn((await attempt(site)).page));
    expect(record.cause?.name).toBe(cause);
    expectStoppedAt(record, step);
  });

  test('F12 logs the clock difference for a token that expired two hours ago', async () => {
    site.provider.setModes('id-token-expired');
    await attempt(site);
    const line = site.logs().findLast((text) => text.includes('token_response_refused: ')) ?? '';
    expect(Number(/200 \(times, this clock (\d+) s ahead\)/.exec(line)?.[1])).toBeGreaterThanOrEqual(7_199);
  });

  test('of a success is found by e-mail address, has every step passed, and contains no secret', async () => {
    const { agent } = await attempt(site);
    const { json } = await getJson(agent, `${site.url}/session`);
    const { email } = json.user as { email: string };
    const { items } = (await getJson(admin, `${site.url}/admin/api/sign-ins?q=${encodeURIComponent(email)}`)).json as {
      items?: SignIn[];
    };
    const record = await read(items?.[0]?.id ?? '');
    expect(record).toMatchObject({ outcome: 'signed_in', cause: null, user: { email } });
    expect(record.steps.filter(({ result }) => result !== 'passed')).toEqual([]);
    expect(JSON.stringify(record)).not.toMatch(/code=|state=|eyJ/);
  });

  test('R10 a repeated callback does not change the outcome of a successful sign-in', async () => {
    const { agent, location } = await begin(site);
    const callback = (await callbackFor(location)).href;
    await agent.get(callback);
    const newest = async () => (await getJson(admin, `${site.url}/admin/api/sign-ins?limit=1`)).json.items as SignIn[];
    const [before] = await newest();
    expect(before).toMatchObject({ outcome: 'signed_in', cause: null });
    expect((await createUserAgent().get(callback)).status).toBe(400);
    expect(await newest()).toEqual([before]);
  });

  test('has no cause for an attempt that succeeds after another browser opened its callback', async () => {
    const { agent, location } = await begin(site);
    const callback = (await callbackFor(location)).href;
    const reference = referenceOn(await createUserAgent().get(callback));
    expect((await read(reference)).cause).toMatchObject({ name: 'cookie_missing' });
    await agent.get(callback);
    expect(await read(reference)).toMatchObject({ outcome: 'signed_in', cause: null });
  });

  describe('found by e-mail address in the same search box', () => {
    const findByEmail = async (email: string) => {
      const { json } = await getJson(admin, `${site.url}/admin/api/sign-ins?q=${encodeURIComponent(email)}`);
      return json.items as SignIn[];
    };
    const signInAs = (email: string) => site.provider.signInAs({ sub: email, email, name: email });

    test('names no user if the attempt failed before the user was known', async () => {
      site.provider.setModes('token-invalid-client');
      expect((await read(referenceOn((await attempt(site)).page))).user).toBeNull();
    });

    test('finds a refused ID token by its e-mail address, marked as presumed', async () => {
      const email = 'claimed@example.test';
      const ahead = Math.floor(Date.now() / 1000) + 95;
      site.provider.setModes({ claims: (claims) => ({ ...claims, email, iat: ahead, nbf: ahead }) });
      const reference = referenceOn((await attempt(site)).page);
      expect((await findByEmail(email)).map(({ id }) => id)).toEqual([(await read(reference)).id]);
      expect((await read(reference)).user).toEqual({ id: null, name: null, email, presumed: true });
      const shown = await admin.get(`${site.url}/admin/sign-ins/${reference}`);
      expect(shown.body).toContain('from the refused ID token');
    });

    test('finds an attempt with failed userinfo by the claims of the ID token', async () => {
      const email = 'userinfo@example.test';
      site.provider.setModes('userinfo-other-sub', { claims: ({ name: _, ...claims }) => ({ ...claims, email }) });
      const { page } = await attempt(site);
      const record = await read(referenceOn(page));
      expect((await findByEmail(email)).map(({ id }) => id)).toEqual([record.id]);
      expectStoppedAt(record, 'claims');
      expect(resultOf(record, 'id_token_signature')).toBe('passed');
      expect(record.steps.find(({ name }) => name === 'claims')?.detail).toBe('userinfo_invalid');
    });

    test('finds a failed connection by the signed-in user', async () => {
      const email = 'connecting@example.test';
      signInAs(email);
      const { agent } = await attempt(site);
      site.provider.setModes('token-invalid-client');
      const page = await agent.request(`${site.url}/connections/elsewhere`, {
        method: 'POST',
        body: new URLSearchParams({ _csrf: await csrfTokenOf(site, agent) }),
      });
      const reference = referenceOn(page);
      const failed = (await findByEmail(email)).find(({ references }) => references.includes(reference));
      expect(failed).toMatchObject({ outcome: 'failed', user: { email, presumed: false } });
    });
  });

  test('the page finds a reference, counts failures with the same cause, and links to the field to check', async () => {
    site.provider.setModes('token-invalid-client');
    const reference = referenceOn((await attempt(site)).page);
    await attempt(site);
    const page = await admin.get(`${site.url}/admin/sign-ins?q=${reference.toUpperCase()}`);
    expect((await admin.get(`${site.url}/admin/sign-ins/?q=${reference}`)).url).toBe(page.url);
    expect(page.url).toContain('/admin/sign-ins/');
    expect(page.body).toContain('The provider did not accept our client authentication');
    expect(page.body).toContain('/admin/connected-apps/elsewhere#clientSecret');
    expect(page.body).toContain('failed for the same cause');
    // The user quotes the reference of the error page: heading and list show it, and name the other one.
    const id = page.url.slice(-8);
    expect(page.body).toContain(`<h1>Sign-in <code>${reference}</code></h1>`);
    expect(page.body).toContain(`Other references: <code>${id}</code>`);
    expect(await read(id)).toMatchObject({ id, reference });
    const all = await admin.get(`${site.url}/admin/sign-ins`);
    expect(all.body).toContain('Failures by cause');
    expect(all.body).toContain('The last 30 days: at most the newest 200 failures');
    expect(all.body).toContain(`/admin/sign-ins/${id}"><code>${reference}</code></a>`);
    expect((await admin.get(`${site.url}/admin/sign-ins?q=ffffffff`)).body).toContain('No sign-ins match');
  });
});
