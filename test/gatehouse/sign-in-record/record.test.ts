/** Every failed sign-in has a record, found by the reference on its page, with its steps and a named cause. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type BrokenResponse, status } from '../../support/broken-responses.ts';
import { createUserAgent, type Page, type UserAgent } from '../../support/browserless.ts';
import { getJson, sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import type { ModeName } from '../../support/hostile-provider.ts';
import { advanceClock } from '../../support/test-clock.ts';
import { attempt, begin, callbackFor, csrfTokenOf, type HostileSite, startHostileSite } from '../sign-in/attempt.ts';

interface RecordAsJson {
  id: string;
  outcome: string | null;
  cause: { code: string; text: string; advice: string; field: string | null } | null;
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
      provider.app(url, {
        id: 'unlisted',
        signIn: undefined,
        callbackUrls: ['https://other.example/oauth/callback/unlister'],
      }),
    ],
  });
  site.provider.setModes({ claims: (claims) => ({ ...claims, groups: ['gatehouse-admins'] }) });
  admin = (await attempt(site)).agent;
});
beforeEach(() => site.provider.reset());
afterEach(() => site.provider.reset());
afterAll(() => site.close());

async function readRecord(reference: string, from: { url: string } = site, reader = admin): Promise<RecordAsJson> {
  const { json } = await getJson(reader, `${from.url}/admin/api/sign-ins/${reference}`);
  return json as unknown as RecordAsJson;
}
/** Signs in, and reads the record that the error page refers to. */
async function readRecordOfAttempt(): Promise<RecordAsJson> {
  const { page } = await attempt(site);
  return readRecord(referenceOn(page));
}
async function readNewestRecords(): Promise<RecordAsJson[]> {
  const { json } = await getJson(admin, `${site.url}/admin/api/sign-ins?limit=1`);
  return json.items as RecordAsJson[];
}
async function findByEmail(email: string): Promise<RecordAsJson[]> {
  const { json } = await getJson(admin, `${site.url}/admin/api/sign-ins?q=${encodeURIComponent(email)}`);
  return json.items as RecordAsJson[];
}
/** Has the provider issue ID tokens that are refused, since they are not valid yet. */
function issueTokensNotYetValid(changes: object = {}): void {
  site.provider.setModes({
    claims: (claims) => {
      const inTheFuture = Math.floor(Date.now() / 1000) + 95;
      return { ...claims, ...changes, iat: inTheFuture, nbf: inTheFuture };
    },
  });
}
const referenceOn = (page: Page) => /data-copy-source>([^<]+)</.exec(page.body)?.[1] ?? 'none';
const resultOf = ({ steps }: RecordAsJson, name: string) => steps.find((step) => step.name === name)?.result;

/** Expects that this step failed, and that none after it was reached. */
function expectStoppedAt(record: RecordAsJson, name: string): void {
  const failedSteps = record.steps.filter(({ result }) => result === 'failed');
  expect(failedSteps.map((step) => step.name)).toEqual([name]);
  const results = record.steps.map(({ result }) => result);
  expect(results.lastIndexOf('passed')).toBeLessThan(results.indexOf('failed'));
}

describe('the cause of a failure', () => {
  test('in another browser is that its cookie is missing or of another sign-in, in the record of the start', async () => {
    const { location } = await begin(site);
    const callback = await callbackFor(location);
    const withoutCookie = await createUserAgent().get(callback.href);
    const record = await readRecord(referenceOn(withoutCookie));
    expect(record.cause).toMatchObject({ code: 'cookie_missing' });
    expect(record.cause?.text).toContain('opened in another browser, or blocked as third-party');
    expect([resultOf(record, 'started'), resultOf(record, 'came_back')]).toEqual(['passed', 'passed']);
    expectStoppedAt(record, 'cookie');

    const { agent: otherBrowser } = await begin(site);
    const { location: secondLocation } = await begin(site);
    const secondCallback = await callbackFor(secondLocation);
    const page = await otherBrowser.get(secondCallback.href);
    const secondRecord = await readRecord(referenceOn(page));
    expect(secondRecord.cause).toMatchObject({ code: 'other_browser' });
    // Opened again, the page refers to the same record.
    const reopenedPage = await otherBrowser.get(secondCallback.href);
    expect(await readRecord(referenceOn(reopenedPage))).toEqual(secondRecord);
  });

  test('of an expired state says after how many minutes it came back', async () => {
    const { agent, location } = await begin(site);
    const elevenMinutes = 11 * 60;
    advanceClock(elevenMinutes);
    await agent.get((await callbackFor(location)).href);
    advanceClock(-elevenMinutes);

    const [record] = await readNewestRecords();
    expect(record?.cause).toMatchObject({ code: 'state_expired' });
    expect(record?.cause?.text).toContain('after 11 minutes');
  });

  test('of a wrong client secret names the error code and the field to check, and its step the status', async () => {
    site.provider.setModes('token-invalid-client');
    const record = await readRecordOfAttempt();
    expect(record.cause).toMatchObject({ code: 'wrong_client_secret', field: 'clientSecret' });
    expect(record.cause?.text).toContain('invalid_client');
    expectStoppedAt(record, 'token_endpoint');
    expect(record.steps.find(({ name }) => name === 'token_endpoint')?.detail).toContain('status 4');
    expect(site.logs().join('')).toMatch(/"detail":"misconfigured: client_refused 4\d\d[^"]*"/);
  });

  test('of a clock behind the provider’s says by how many seconds', async () => {
    issueTokensNotYetValid();
    const record = await readRecordOfAttempt();
    expect(record.cause).toMatchObject({ code: 'clock_skew' });
    expect(record.cause?.text).toMatch(/clock is 9[45] s behind the provider’s/);
    expectStoppedAt(record, 'id_token_times');
    expect(resultOf(record, 'token_endpoint')).toBe('passed');
  });

  test('of a denied consent is at the step of the consent, and leads to no field to check', async () => {
    site.provider.setModes('callback-access-denied');
    const { page } = await attempt(site);
    expect(page.body).toMatch(/<title>Consent was not given.*<h1>Consent was not given<\/h1>/s);

    const record = await readRecord(referenceOn(page));
    expect(record).toMatchObject({ outcome: 'refused', cause: { code: 'access_denied', field: null } });
    const { body } = await admin.get(`${site.url}/admin/sign-ins/${record.id}`);
    expect(body).not.toContain('class="button" href');
    expect(body).toContain('The user or the provider did not consent');
    expect(body).not.toContain('User and provider consented');
    expect(resultOf(record, 'authorization_response')).toBe('passed');
    expectStoppedAt(record, 'granted');
  });

  test('of an unavailable provider is at the token endpoint', async () => {
    site.provider.setModes('token-status-503');
    const record = await readRecordOfAttempt();
    expect(record.cause).toMatchObject({ code: 'provider_unavailable', field: 'issuer' });
    expectStoppedAt(record, 'token_endpoint');
  });

  test('of a callback URL that the provider does not know is that the browser did not come back', async () => {
    const sandboxSite: TestSite = await startSite({
      apps: (urls) => [
        sandboxApp(urls, 'platform'),
        {
          ...sandboxApp(urls, 'platform'),
          id: 'unregistered',
          callbackUrls: [`${urls.url}/oauth/callback/unregistered`],
        },
      ],
      env: { ADMIN_APP: 'platform' },
    });
    try {
      const { agent: administrator } = await signIn(sandboxSite, 'admin@example.test', {
        path: '/sign-in?app=platform',
      });
      const page = await createUserAgent().get(`${sandboxSite.url}/sign-in?app=unregistered`);
      expect(page.url).toContain(sandboxSite.sandbox.issuer);
      const { json } = await getJson(administrator, `${sandboxSite.url}/admin/api/sign-ins?limit=1`);
      const [started] = json.items as RecordAsJson[];
      expect(started).toMatchObject({ outcome: null, cause: null });

      const threeMinutes = 180;
      advanceClock(threeMinutes);
      const record = await readRecord(started?.id ?? '', sandboxSite, administrator);
      advanceClock(-threeMinutes);
      expect(record.cause).toMatchObject({ code: 'nothing_came_back', field: 'callbackUrls' });
      expect(record.cause?.text).toContain('the browser did not come back');
      expect([resultOf(record, 'sent'), resultOf(record, 'came_back')]).toEqual(['passed', 'not_reached']);
      expect(record.steps.find(({ name }) => name === 'sent')?.detail).toContain('character by character');
    } finally {
      await sandboxSite.close();
    }
  });
});

describe('the record of a refused code', () => {
  const readRecordAfter = async (tokenResponse: BrokenResponse) => {
    site.provider.setModes({ responses: { token: tokenResponse } });
    const record = await readRecordOfAttempt();
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
  ])(
    'with status %i and %s names the error code, and the cause %s with the field %s',
    async (code, error, name, field) => {
      const record = await readRecordAfter(status(code, { ok: false, error }));
      expect(record.cause).toMatchObject({ code: name, field });
      expect(record.steps.find((step) => step.name === 'token_endpoint')?.detail).toContain(`status ${code}, ${error}`);
      if (code !== 405) expect(record.cause?.text).toContain(error);

      // The audit trail is written in the background.
      const entriesUrl = `${site.url}/admin/api/audit?event=sign_in.failed&q=${record.references.at(-1)}`;
      await expect
        .poll(async () => (await getJson(admin, entriesUrl)).json.items)
        .toMatchObject([{ facts: { error } }]);
    },
  );

  test('names the member of an unreadable token response', async () => {
    const record = await readRecordAfter(status(200, { access_token: 'a', token_type: 'Bearer', scope: 7 }));
    expect(record.cause).toMatchObject({ code: 'token_response_malformed', field: 'tokenPath' });
    expect(record.cause?.text).toContain('scope');
    const page = await admin.get(`${site.url}/admin/sign-ins/${record.id}`);
    expect(page.body).toMatch(/connected-apps\/elsewhere\/settings#tokenPath"><span>Open “Path of nested tokens”/);
  });

  const TOKEN = 'gho_16C7e42F292c6912E7710c838347Ae178B4a';
  test.each([
    ['mac', '“mac”'],
    ['Bearer ', '“Bearer ”'],
    [' bearer', '“ bearer”'],
    ['bearer_token', '“bearer_token”'],
    ['User Access Token', '“User Access Token”'],
    ['urn:ietf:params:oauth:token-type:jwt', '“urn:ietf:params:oauth:token-type:jwt”'],
    [7, 'of the type number'],
    [['Bearer'], 'a list'],
    [TOKEN, 'a text of 40 characters'],
    ['access-token-a', 'a text of 14 characters'],
    ['<b>\n</b>', 'a text of 8 characters'],
    ['x'.repeat(5_000), 'a text of 5000 characters'],
  ])('names a token type that is not accepted, but no token: %j as %s', async (tokenType, words) => {
    const record = await readRecordAfter(status(200, { access_token: 'access-token-a', token_type: tokenType }));
    expect(record.cause).toMatchObject({
      code: 'token_type_unknown',
      text: `The token_type of the provider’s token response is ${words}, and not “Bearer”.`,
      advice: expect.stringContaining('token_type in the provider’s documentation'),
      field: null,
    });
    expect(record.steps.find((step) => step.name === 'token_endpoint')?.detail).toContain(`token_type ${words}`);
    const { body } = await admin.get(`${site.url}/admin/sign-ins/${record.id}`);
    expect(body + site.logs().join()).not.toMatch(new RegExp(`${TOKEN}|access-token-a|x{60}`));
  });

  test('a token that is bound to a key, which nobody asked for, names the setting', async () => {
    site.provider.setModes({ tokenResponse: (body) => ({ ...body, token_type: 'DPoP' }) });
    const record = await readRecordOfAttempt();
    expectStoppedAt(record, 'token_endpoint');
    expect(record.cause).toMatchObject({ code: 'token_bound_unasked', field: 'dpop' });
  });

  test('escapes an error code on the page', async () => {
    const record = await readRecordAfter(status(400, { error: '<b>&' }));
    const page = await admin.get(`${site.url}/admin/sign-ins/${record.id}`);
    expect(page.body).toContain('&lt;b&gt;&amp;');
    expect(page.body).not.toContain('<b>&');
  });
});

describe('the record of an ID token', () => {
  test.each<[ModeName, string, string, string]>([
    ['id-token-no-nonce', 'id_token_nonce', '“nonce” is missing', 'The ID token has no “nonce”.'],
    ['id-token-no-iss', 'id_token_issuer', '“iss” is missing', 'The ID token has no “iss”.'],
    ['id-token-no-aud', 'id_token_audience', '“aud” is missing', 'The ID token has no “aud”.'],
    ['id-token-no-exp', 'id_token_times', '“exp” is missing', 'The ID token has no “exp”.'],
    ['id-token-no-iat', 'id_token_times', '“iat” is missing', 'The ID token has no “iat”.'],
    ['id-token-no-sub', 'id_token_form', '“sub” is missing', 'The ID token has no “sub”.'],
    ['id-token-many-aud-no-azp', 'id_token_audience', '“azp” is missing', 'The ID token has no “azp”.'],
    ['id-token-exp-text', 'id_token_times', '“exp” has a form that is not allowed', '“exp” in a form'],
    ['id-token-iat-text', 'id_token_times', '“iat” has a form that is not allowed', '“iat” in a form'],
    ['id-token-sub-number', 'id_token_form', '“sub” has a form that is not allowed', '“sub” in a form'],
    ['id-token-sub-null', 'id_token_form', '“sub” has a form that is not allowed', '“sub” in a form'],
    ['id-token-empty-sub', 'id_token_form', '“sub” has a form that is not allowed', '“sub” in a form'],
  ])('with %s fails at %s: %s', async (mode, step, detail, words) => {
    site.provider.setModes(mode);
    const record = await readRecordOfAttempt();
    expect(record.cause).toMatchObject({ code: 'claim_faulty', text: expect.stringContaining(words), field: null });
    expectStoppedAt(record, step);
    expect(record.steps.find(({ name }) => name === step)?.detail).toBe(detail);
  });

  test.each<ModeName>(['id-token-missing', 'id-token-empty'])('%s is told as that', async (mode) => {
    site.provider.setModes(mode);
    const record = await readRecordOfAttempt();
    expect(record.cause).toMatchObject({ code: 'id_token_missing', field: 'scopes' });
    expectStoppedAt(record, 'id_token_form');
  });

  test('with a wrong nonce is told as that', async () => {
    site.provider.setModes('id-token-wrong-nonce');
    const record = await readRecordOfAttempt();
    expect(record.cause?.text).toBe('The nonce of the ID token is not that of the request.');
    expectStoppedAt(record, 'id_token_nonce');
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

  const record = await readRecord(reference);
  expect(record.cause).toMatchObject({ code: 'unusable_app', field: 'callbackUrls' });
  const { detail } = record.steps.find(({ name }) => name === 'redirect_uri') ?? {};
  expect(detail).toContain(`nearest is https://other.example/oauth/callback/unlister`);
});

describe('the record', () => {
  test.each([
    ['id-token-wrong-iss', 'wrong_issuer', 'id_token_issuer'],
    ['id-token-wrong-aud', 'wrong_client_id', 'id_token_audience'],
    ['id-token-wrong-nonce', 'token_response_refused', 'id_token_nonce'],
    ['id-token-tampered', 'bad_signature', 'id_token_signature'],
  ] as const)('names the check that an ID token failed: %s', async (mode, cause, step) => {
    site.provider.setModes(mode);
    const record = await readRecordOfAttempt();
    expect(record.cause?.code).toBe(cause);
    expectStoppedAt(record, step);
  });

  test('F12 of a token that expired two hours ago has a log line with the difference of the clocks', async () => {
    site.provider.setModes('id-token-expired');
    await attempt(site);
    const line = site.logs().findLast((text) => text.includes('token_response_refused: ')) ?? '';
    expect(Number(/200 \(times, this clock (\d+) s ahead\)/.exec(line)?.[1])).toBeGreaterThanOrEqual(7_199);
  });

  test('of a success is found by e-mail address, has every step passed, and contains no secret', async () => {
    const { agent } = await attempt(site);
    const { json } = await getJson(agent, `${site.url}/session`);
    const { email } = json.user as { email: string };

    const [found] = await findByEmail(email);
    const record = await readRecord(found?.id ?? '');
    expect(record).toMatchObject({ outcome: 'signed_in', cause: null, user: { email } });
    expect(record.steps.filter(({ result }) => result !== 'passed')).toEqual([]);
    expect(JSON.stringify(record)).not.toMatch(/code=|state=|eyJ/);
  });

  test('R10 of a success does not change if another browser opens its callback again', async () => {
    const { agent, location } = await begin(site);
    const callback = (await callbackFor(location)).href;
    await agent.get(callback);
    const [record] = await readNewestRecords();
    expect(record).toMatchObject({ outcome: 'signed_in', cause: null });

    expect((await createUserAgent().get(callback)).status).toBe(400);
    expect(await readNewestRecords()).toEqual([record]);
  });

  test('has no cause for an attempt that succeeds after another browser opened its callback', async () => {
    const { agent, location } = await begin(site);
    const callback = (await callbackFor(location)).href;
    const reference = referenceOn(await createUserAgent().get(callback));
    expect((await readRecord(reference)).cause).toMatchObject({ code: 'cookie_missing' });

    await agent.get(callback);
    expect(await readRecord(reference)).toMatchObject({ outcome: 'signed_in', cause: null });
  });

  describe('of a failure', () => {
    test('names no user if the attempt failed before the user was known', async () => {
      site.provider.setModes('token-invalid-client');
      const record = await readRecordOfAttempt();
      expect(record.user).toBeNull();
    });

    test('is found by the e-mail address of a refused ID token, which is marked as presumed', async () => {
      const email = 'claimed@example.test';
      issueTokensNotYetValid({ email });
      const { page } = await attempt(site);
      const reference = referenceOn(page);

      const record = await readRecord(reference);
      expect((await findByEmail(email)).map(({ id }) => id)).toEqual([record.id]);
      expect(record.user).toEqual({ id: null, name: null, email, presumed: true });
      const recordPage = await admin.get(`${site.url}/admin/sign-ins/${reference}`);
      expect(recordPage.body).toContain('from the refused ID token');
    });

    test('is found by the e-mail address of the ID token if userinfo failed', async () => {
      const email = 'userinfo@example.test';
      site.provider.setModes('userinfo-other-sub', { claims: ({ name: _, ...claims }) => ({ ...claims, email }) });
      const record = await readRecordOfAttempt();
      expect((await findByEmail(email)).map(({ id }) => id)).toEqual([record.id]);
      expectStoppedAt(record, 'claims');
      expect(resultOf(record, 'id_token_signature')).toBe('passed');
      expect(record.steps.find(({ name }) => name === 'claims')?.detail).toBe('userinfo_invalid');
    });

    test('is found by the e-mail address of the signed-in user if a connection failed', async () => {
      const email = 'connecting@example.test';
      site.provider.signInAs({ sub: email, email, name: email });
      const { agent } = await attempt(site);
      site.provider.setModes('token-invalid-client');
      const page = await agent.request(`${site.url}/connections/elsewhere`, {
        method: 'POST',
        body: new URLSearchParams({ _csrf: await csrfTokenOf(site, agent) }),
      });

      const reference = referenceOn(page);
      const records = await findByEmail(email);
      const recordOfConnection = records.find(({ references }) => references.includes(reference));
      expect(recordOfConnection).toMatchObject({ outcome: 'failed', user: { email, presumed: false } });
    });
  });

  test('is found on the page by its reference, with a count of the same cause and a link to the field to check', async () => {
    site.provider.setModes('token-invalid-client');
    const { page: errorPage } = await attempt(site);
    const reference = referenceOn(errorPage);
    await attempt(site);

    const page = await admin.get(`${site.url}/admin/sign-ins?q=${reference.toUpperCase()}`);
    expect((await admin.get(`${site.url}/admin/sign-ins/?q=${reference}`)).url).toBe(page.url);
    expect(page.url).toContain('/admin/sign-ins/');
    expect(page.body).toContain('The provider did not accept our client authentication');
    expect(page.body).toContain('/admin/connected-apps/elsewhere/settings#clientSecret');
    expect(page.body).toContain('failed for the same cause');

    // A user quotes the reference of the error page, so heading and list show it before the id.
    const id = page.url.slice(-8);
    expect(page.body).toContain(`<h1>Sign-in <code>${reference}</code></h1>`);
    expect(page.body).toContain(`Other references: <code>${id}</code>`);
    expect(await readRecord(id)).toMatchObject({ id, reference });

    const list = await admin.get(`${site.url}/admin/sign-ins`);
    expect(list.body).toContain('Failures by cause');
    expect(list.body).toContain('The last 30 days: at most the newest 200 failures');
    expect(list.body).toContain(`/admin/sign-ins/${id}"><code>${reference}</code></a>`);
    expect((await admin.get(`${site.url}/admin/sign-ins?q=ffffffff`)).body).toContain('No sign-ins match');
  });
});
