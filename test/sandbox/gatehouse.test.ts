/** Gatehouse with unusual providers: no expires_in, other refresh policies, 503 over a limit, PAR and DPoP. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { AppOverrides } from '../../src/sandbox/app-settings.ts';
import { CLIENT_SECRET, getJson, sandboxApp, signIn, startSite, type TestSite } from '../support/gatehouse.ts';
import { freePort } from '../support/ports.ts';
import { advanceClock } from '../support/test-clock.ts';

/** Long enough for a slow machine to use a token, and short enough for proofs, which must be younger than a minute. */
const LIFETIME_SECONDS = 30;

let site: TestSite;

beforeAll(async () => {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const clientOf = (id: string, settings: AppOverrides) => ({
    clientId: `test-${id}`,
    clientSecret: CLIENT_SECRET,
    redirectUris: [`${url}/oauth/callback/${id}`],
    settings,
  });
  site = await startSite({
    env: { PUBLIC_URL: url, PORT: String(port) },
    apps: (urls) => [sandboxApp(urls, 'platform'), sandboxApp(urls, 'second')],
    sandbox: {
      clients: [
        clientOf('platform', { sendExpiresIn: false, accessTokenSeconds: LIFETIME_SECONDS, refreshPolicy: 'reusable' }),
        clientOf('second', {
          refreshPolicy: 'grace',
          graceSeconds: 30,
          accessTokenSeconds: LIFETIME_SECONDS,
          tokenDelayMilliseconds: 100,
        }),
      ],
      rateLimits: { response: '503' },
    },
  });
});
afterAll(() => site.close());

describe('Gatehouse', () => {
  it('refreshes reusable refresh tokens without expires_in, and rotating ones with a grace period', async () => {
    const readers = await Promise.all(
      ['platform', 'second'].map(async (app) => {
        const { agent } = await signIn(site, 'user@example.test', { path: `/sign-in?app=${app}` });
        return () => getJson(agent, `${site.url}/threads/current?app=${app}`);
      }),
    );
    const readAll = async () => (await Promise.all(readers.map((read) => read()))).map(({ status }) => status);
    expect(await readAll()).toEqual([200, 200]);

    const callsBefore = site.sandbox.requests.count('POST /token');
    advanceClock(LIFETIME_SECONDS + 0.1);
    expect(await readAll()).toEqual([200, 200]);
    expect(site.sandbox.requests.count('POST /token')).toBeGreaterThanOrEqual(callsBefore + 2);
  });

  it('treats 503 "Over Rate Limit" as a rate limit', async () => {
    const { agent } = await signIn(site, 'second@example.test', { path: '/sign-in?app=platform' });
    site.sandbox.rateLimits.perUserPerMinute = 1;
    await getJson(agent, `${site.url}/threads/current?app=platform`);
    const { status, json, headers } = await getJson(agent, `${site.url}/threads/current?app=platform`);
    expect([status, json.code]).toEqual([429, 'platform_rate_limited']);
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
  });
});

describe('Gatehouse with a provider that requires PAR', () => {
  it('uses PAR and DPoP if the app is set to auto, and neither if it is set to off', async () => {
    const strictSite = await startSite({
      apps: (urls) => [
        sandboxApp(urls, 'platform', { par: 'off', dpop: 'off' }),
        sandboxApp(urls, 'second', { par: 'auto', dpop: 'auto' }),
      ],
    });
    try {
      strictSite.sandbox.faults.set({
        listener: 'identity-provider',
        path: '/.well-known/openid-configuration',
        kind: 'rewrite',
        change: (metadata) => ({ ...metadata, require_pushed_authorization_requests: true }),
      });
      const schemeOf = async (app: string) => {
        const { agent } = await signIn(strictSite, 'user@example.test', { path: `/sign-in?app=${app}` });
        expect((await getJson(agent, `${strictSite.url}/threads/current?app=${app}`)).status).toBe(200);
        const { authorization = '' } = strictSite.sandbox.requests.latest('platform').at(-1)?.headers ?? {};
        return [authorization.split(' ')[0], strictSite.sandbox.requests.count('POST /par')];
      };
      expect(await schemeOf('platform')).toEqual(['Bearer', 0]);
      expect(await schemeOf('second')).toEqual(['DPoP', 1]);
    } finally {
      await strictSite.close();
    }
  });
});
