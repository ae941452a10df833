/** R8: a response that cannot be matched to a sign-in has a page and a record with its cause, and uses up nothing. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { createUserAgent } from '../../support/browserless.ts';
import { getJson } from '../../support/gatehouse.ts';
import { ACCEPT_HTML, FORM_BODY, sendRequest } from '../../support/send-request.ts';
import { begin, callbackFor, type HostileSite, isSignedIn, startHostileSite, textOf } from './attempt.ts';

const ADMINISTRATOR = { sub: 'ann', email: 'ann@example.test', groups: ['gatehouse-admins'] };

let site: HostileSite;
beforeAll(async () => {
  site = await startHostileSite();
});
afterEach(() => site.provider.reset());
afterAll(() => site.close());

const referenceOn = ({ body }: { body: string }) => /data-copy-source>([^<]+)</.exec(body)?.[1] ?? 'none';
async function readRecord(reference: string) {
  site.provider.signInAs(ADMINISTRATOR as never);
  const administrator = createUserAgent();
  await administrator.get(`${site.url}/sign-in`);
  const { json } = await getJson(administrator, `${site.url}/admin/api/sign-ins/${reference}`);
  return json as { app: string; user: unknown; cause: { code: string; text: string; advice: string; field: string } };
}
const readNewestLine = () => JSON.parse(site.logs().findLast((line) => line.includes('"sign-in ended"')) ?? '{}');

describe('R8 an error without a state', () => {
  test('has its code on the page, in the record and in the log, and leaves the pending request', async () => {
    const { agent, location } = await begin(site);
    const page = await agent.get(`${site.url}/oauth/callback/elsewhere?error=invalid_scope`);
    expect(page.status).toBe(400);
    expect(textOf(page.body)).toContain('sent you back with the error “invalid_scope”');
    expect(textOf(page.body)).toContain('The operator of the sign-in provider.');
    expect(readNewestLine()).toMatchObject({ reason: 'error_without_state', providerError: 'invalid_scope' });

    const record = await readRecord(referenceOn(page));
    expect(record).toMatchObject({ user: null, cause: { code: 'error_without_state', field: 'scopes' } });
    expect(record.cause.text).toContain('invalid_scope');

    await agent.get((await callbackFor(location)).href);
    expect(await isSignedIn(site, agent)).toBe(true);
  });

  test.each(['<script>alert(1)</script>', 'Call+0800', 'x'.repeat(60), 'a b'])(
    'does not repeat %s, which is no error code',
    async (error) => {
      const { agent } = await begin(site);
      const query = new URLSearchParams({ error, error_description: 'alert(2)' });
      const page = await agent.get(`${site.url}/oauth/callback/elsewhere?${query}`);
      expect(page.status).toBe(400);
      expect(textOf(page.body)).toContain('sent you back with an error, but did not say');
      expect(page.body).not.toMatch(/alert\(|0800|xxxxx/);
    },
  );

  test('R54 of a browser without cookies leaves a record, too', async () => {
    const page = await createUserAgent().get(`${site.url}/oauth/callback/elsewhere?error=access_denied`);
    expect(page.status).toBe(400);
    expect(readNewestLine()).toMatchObject({ reason: 'error_without_state', unsolicited: true });
    const record = await readRecord(referenceOn(page));
    expect(record).toMatchObject({ app: 'elsewhere', user: null, cause: { code: 'error_without_state' } });
    expect(record.cause.text).toContain('access_denied');
  });

  test.each([
    '/oauth/callback/elsewhere',
    '/oauth/callback/elsewhere?code=c&state=invented',
    '/oauth/callback/nowhere?error=x',
  ])('R54 %s of a browser without cookies, which names no fault of a provider, leaves no record', async (path) => {
    const page = await createUserAgent().get(site.url + path);
    expect([page.status, referenceOn(page)]).toEqual([400, 'none']);
  });
});

describe('R8 a response by POST (form_post)', () => {
  /** Sends a form as a browser sends it from another site: without the cookies, which are `SameSite=Lax`. */
  const post = (fields: Record<string, string>) =>
    sendRequest(`${site.url}/oauth/callback/elsewhere`, {
      method: 'POST',
      body: new URLSearchParams(fields).toString(),
      headers: {
        ...ACCEPT_HTML,
        ...FORM_BODY,
        origin: site.provider.issuer,
        'sec-fetch-site': 'cross-site',
        'sec-fetch-mode': 'navigate',
      },
    });

  test('leads to a page, is added to the record of the attempt, and leaves the pending request', async () => {
    const { agent, location, parameters } = await begin(site);
    const callback = await callbackFor(location);
    const { code = '', state = '' } = Object.fromEntries(callback.searchParams);

    const page = await post({ code, state });
    expect(page.status).toBe(400);
    expect(textOf(page.body)).toContain('sent its response in a form that is not accepted here');
    expect(page.body).not.toContain(code);
    expect(state).toBe(parameters.get('state'));

    const record = await readRecord(referenceOn(page));
    expect(record).toMatchObject({ app: 'elsewhere', cause: { code: 'form_post' } });
    expect(record.cause.advice).toContain('Set the response mode of this client at the provider to “query”');
    expect(site.provider.hitsOf('token')).toHaveLength(1);

    await agent.get(callback.href);
    expect(await isSignedIn(site, agent)).toBe(true);
    expect(await readRecord(referenceOn(page))).toMatchObject({ cause: null });
  });

  test('is recorded with its error', async () => {
    const { parameters } = await begin(site);
    const page = await post({ error: 'access_denied', state: parameters.get('state') ?? '' });
    expect((await readRecord(referenceOn(page))).cause.text).toContain('access_denied');
  });

  test.each([{ code: 'c', state: 'invented' }, { code: 'c' }, { error: 'access_denied' }, {}])(
    'R54 with %o leaves a record',
    async (fields) => {
      const page = await post(fields as Record<string, string>);
      expect(page.status).toBe(400);
      expect(await readRecord(referenceOn(page))).toMatchObject({ app: 'elsewhere', cause: { code: 'form_post' } });
    },
  );

  test('R54 R95 an address leaves at most ten such records a minute', async () => {
    const references: string[] = [];
    for (let n = 0; n < 25; n += 1) references.push(referenceOn(await post({ code: 'c' })));
    // The minute may change meanwhile.
    expect(references.filter((reference) => reference !== 'none').length).toBeLessThanOrEqual(20);
    expect(references).toContain('none');
  });
});
