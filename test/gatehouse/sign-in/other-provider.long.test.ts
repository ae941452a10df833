/** Gatehouse against an identity provider that is not the sandbox, given only a file of connected apps. */
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { getJson } from '../../support/gatehouse.ts';
import { type HostileProvider, startHostileProvider } from '../../support/hostile-provider.ts';
import { ACCEPT_JSON } from '../../support/send-request.ts';
import { attempt, csrfTokenOf, type HostileSite, startHostileSite } from './attempt.ts';

let provider: HostileProvider;
const sitesOfTest: HostileSite[] = [];

beforeAll(async () => {
  provider = await startHostileProvider();
});
afterEach(async () => {
  provider.reset();
  await Promise.all(sitesOfTest.splice(0).map((site) => site.close()));
});
afterAll(() => provider.close());

async function siteWith(app: Record<string, unknown>): Promise<HostileSite> {
  const site = await startHostileSite({ provider, app });
  sitesOfTest.push(site);
  return site;
}

/** Signs in, reads the thread, disconnects, reconnects and signs out. */
async function expectMainPathWorks(site: HostileSite): Promise<void> {
  const { agent, signedIn } = await attempt(site);
  expect(signedIn).toBe(true);
  const readThread = () => getJson(agent, `${site.url}/threads/current`);
  expect(await readThread()).toMatchObject({ status: 200, json: { thread: { title: 'Harbour plan' } } });
  const post = async (path: string, headers = {}) =>
    agent.request(site.url + path, {
      method: 'POST',
      body: new URLSearchParams({ _csrf: await csrfTokenOf(site, agent) }),
      headers,
      follow: path !== '/sign-out',
    });

  const disconnected = await post('/connections/elsewhere/disconnect', ACCEPT_JSON);
  const revocation = { disconnected: true, revocation: 'revoked', providerResponse: { status: 200 } };
  expect(JSON.parse(disconnected.body)).toEqual({ id: expect.stringMatching(/^cn/), app: 'elsewhere', ...revocation });
  expect((await readThread()).json.code).toBe('not_connected');

  await post('/connections/elsewhere');
  expect((await readThread()).status).toBe(200);

  const signOutUrl = new URL((await post('/sign-out')).headers.get('location') ?? '');
  expect(signOutUrl.origin + signOutUrl.pathname).toBe(`${provider.issuer}/end_session`);
  expect(signOutUrl.searchParams.get('id_token_hint')).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+$/);
  expect((await readThread()).json.code).toBe('sign_in_required');
}

describe('sign-in, thread, disconnect, reconnect and sign-out', () => {
  test('work with discovery', async () => {
    await expectMainPathWorks(await siteWith({}));
    expect(provider.hitsOf('discovery')).toHaveLength(1);
  });

  test('work with endpoints set by hand', async () => {
    await expectMainPathWorks(await siteWith({ endpoints: provider.endpointSettings() }));
    expect(provider.hitsOf('discovery')).toEqual([]);
  });

  test('work with discovery at another address', async () => {
    provider.setModes('discovery-elsewhere');
    await expectMainPathWorks(await siteWith({ discoveryUrl: `${provider.issuer}/tenant/metadata/` }));
  });

  test.each(['client_secret_post', 'none'])(
    'work with the authentication method %s',
    async (tokenEndpointAuthMethod) => {
      await expectMainPathWorks(await siteWith({ tokenEndpointAuthMethod }));
    },
  );

  test.each(['id-token-eddsa', 'id-token-es256'] as const)('work with endpoints set by hand, and %s', async (mode) => {
    provider.setModes(mode);
    await expectMainPathWorks(await siteWith({ endpoints: provider.endpointSettings() }));
  });
});

describe('F14: an unavailable provider', () => {
  test('prevents neither the start nor sign-ins elsewhere, and is called again without a restart', async () => {
    const otherProvider = await startHostileProvider();
    provider.setModes('discovery-reset');
    const site = await startHostileSite({
      provider,
      apps: (unavailable, url) => [
        unavailable.app(url),
        otherProvider.app(url, { id: 'other', clientSecret: { env: 'OTHER' } }),
      ],
      env: { OTHER: otherProvider.clientSecret },
    });
    sitesOfTest.push(site);
    expect(provider.hits).toEqual([]);
    expect((await fetch(`${site.managementUrl}/readyz`)).status).toBe(200);

    const now = performance.now();
    const clock = vi.spyOn(performance, 'now').mockReturnValue(now);
    const failed = await attempt(site, { path: '/sign-in?app=elsewhere' });
    expect([failed.page.status, failed.signedIn]).toEqual([503, false]);
    expect((await attempt(site, { path: '/sign-in?app=other' })).signedIn).toBe(true);

    provider.setModes();
    const tooSoon = await attempt(site, { path: '/sign-in?app=elsewhere' });
    expect(Number(tooSoon.page.headers.get('retry-after') ?? 0)).toBeGreaterThanOrEqual(1);
    clock.mockReturnValue(now + 1_400);
    expect((await attempt(site, { path: '/sign-in?app=elsewhere' })).signedIn).toBe(true);
    clock.mockRestore();
    await otherProvider.close();
  });

  test('F10 does not interrupt users who are signed in', async () => {
    const site = await siteWith({});
    const { agent } = await attempt(site);
    provider.setModes('token-status-503', 'discovery-status-503', 'jwks-status-503', 'userinfo-status-503');
    expect((await getJson(agent, `${site.url}/threads/current`)).status).toBe(200);
    expect((await getJson(agent, `${site.url}/session`)).json).toMatchObject({ signedIn: true });
    expect((await getJson(agent, `${site.url}/connections`)).json).toMatchObject({ items: [{ health: 'active' }] });
  });
});
