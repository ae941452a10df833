/**
 * Simulated well-known providers: each is used with only the settings of its preset, from connecting to disconnecting.
 * `docs/providers.md` shows the results.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { PRESETS } from '../../src/gatehouse/connected-apps/presets.ts';
import type { Page, UserAgent } from '../support/browserless.ts';
import { createUserAgent } from '../support/browserless.ts';
import { CLIENT_SECRET, getJson, sandboxApp, signIn, startSite, type TestSite } from '../support/gatehouse.ts';
import { insertResults, type Result } from '../support/provider-results.ts';
import { type ProviderSimulator, startProviderSimulator } from '../support/provider-simulator.ts';
import { IDENTITY_PROVIDERS } from '../support/providers/identity.ts';
import { PLATFORMS } from '../support/providers/platforms.ts';
import { JSON_BODY } from '../support/send-request.ts';
import { advanceClock } from '../support/test-clock.ts';

const DOCUMENT = join(import.meta.dirname, '..', '..', 'docs', 'providers.md');
const DAY_SECONDS = 86_400;
/** Longer than Gatehouse waits after a first failure before it calls the provider again. */
const RETRY_PAUSE_SECONDS = 60;

let site: TestSite;
const simulators = new Map<string, ProviderSimulator>();
const results: Result[] = [];
const PROFILES = PRESETS.flatMap(({ id }) =>
  [...PLATFORMS, ...IDENTITY_PROVIDERS].filter(({ preset }) => preset === id),
);

beforeAll(async () => {
  for (const profile of PROFILES) simulators.set(profile.preset, await startProviderSimulator(profile));
  site = await startSite({
    env: { ADMIN_APP: 'platform', INTERNAL_HOSTS: '127.0.0.1,localhost' },
    apps: (urls) => [sandboxApp(urls, 'platform'), ...[...simulators.values()].map(({ app }) => app(urls.url))],
  });
});
afterAll(async () => {
  await site.close();
  for (const simulator of simulators.values()) await simulator.close();
});

/** Signs in a user of Gatehouse, because an earlier session may have expired. */
const visit = async (): Promise<UserAgent> => (await signIn(site, undefined, { path: '/sign-in?app=platform' })).agent;

describe.each(PROFILES.map((profile) => [profile.preset, profile] as const))('%s', (id, profile) => {
  const { accessTokenSeconds: lifetime, isForSignIn, refusedRefresh, otherRefusals = [] } = profile;
  const simulator = () => simulators.get(id) as ProviderSimulator;
  const result: Result = {
    id,
    connect: '',
    expiry: '–',
    refusal: [],
    reconnect: '–',
    disconnect: '',
    signIn: 'no ID token',
  };
  const connectionPage = (agent: UserAgent) => agent.get(`${site.url}/connections/${id}`);
  /** Returns the connection as `GET /connections` lists it. */
  const listedConnection = async (agent: UserAgent) => {
    const { json } = await getJson(agent, `${site.url}/connections`);
    return (json.items as { app: string; health: string; cause: string }[]).find(({ app }) => app === id);
  };
  const health = async (agent: UserAgent) => (await listedConnection(agent))?.health;

  /** Presses a button, and leaves the fields of its form as they are. */
  async function press(agent: UserAgent, page: Page, label: RegExp): Promise<Page> {
    const button = page.forms.flatMap(({ buttons }) => buttons).find(({ text }) => label.test(text));
    if (!button) throw new Error(`${page.url} has no button ${label}.`);
    return agent.submit(page, {}, { button: button.text });
  }

  async function expectRead(): Promise<void> {
    const { status, json } = await getJson(await visit(), `${site.url}/threads/current?app=${id}`);
    expect([status, json]).toEqual([200, simulator().threadBody]);
  }

  const expire = () => advanceClock((lifetime ?? 30 * DAY_SECONDS) + 1);

  /** Returns the names of the checks with problems. */
  async function problems(): Promise<string[]> {
    const { agent } = await signIn(site, 'admin@example.test', { path: '/sign-in?app=platform' });
    const { json } = await getJson(agent, `${site.url}/session`);
    const page = await agent.request(`${site.url}/admin/api/connected-apps/${id}/check`, {
      method: 'POST',
      headers: { accept: 'application/json', 'x-csrf-token': String(json.csrfToken), origin: site.url, ...JSON_BODY },
      body: '{}',
    });
    const { findings } = JSON.parse(page.body) as { findings: { check: string; result: string }[] };
    return findings.filter(({ result }) => result === 'failed').map(({ check }) => check);
  }

  test('passes the checks of the doctor', async () => {
    expect(await problems()).toEqual([]);
  });

  test('can be connected, and its API can be read', async () => {
    const agent = await visit();
    const page = await press(agent, await connectionPage(agent), /^Connect$/);
    expect([page.status, page.url, await health(agent)]).toEqual([200, `${site.url}/connections/${id}`, 'active']);
    if (!isForSignIn) await expectRead();
    result.connect = isForSignIn ? 'works' : 'works, with its API';
  });

  test.skipIf(isForSignIn)('its access token is refreshed each time it expires', async () => {
    for (const times of [1, 2]) {
      expire();
      await expectRead();
      expect(simulator().refreshes()).toBe(lifetime === undefined ? 0 : times);
    }
    result.expiry = lifetime === undefined ? 'does not happen' : 'renewed twice';
  });

  test('a refused client secret is reported by the check, and ends no connection', async () => {
    simulator().acceptOnlySecret('another-secret');
    expect(await problems()).toEqual(['client_authentication']);
    if (!isForSignIn && lifetime !== undefined) {
      expire();
      const agent = await visit();
      expect((await getJson(agent, `${site.url}/threads/current?app=${id}`)).status).toBe(503);
      expect(await listedConnection(agent)).toMatchObject({ health: 'unverified', cause: 'app_refused' });
    }
    simulator().acceptOnlySecret(CLIENT_SECRET);
    advanceClock(RETRY_PAUSE_SECONDS);
    if (!isForSignIn) await expectRead();
  });

  // Without expiry no refresh is sent, so one case is enough.
  const refusals = lifetime === undefined ? [refusedRefresh] : [refusedRefresh, ...otherRefusals];
  test.skipIf(isForSignIn).each(refusals)(
    'refusal %i %j of a refresh: the caller gets a connect URL, and the new connection refreshes',
    async (...refusal) => {
      simulator().endGrants(refusal);
      expire();
      const agent = await visit();
      const { status, json } = await getJson(agent, `${site.url}/threads/current?app=${id}`);
      expect(json.connectUrl).toBe(`${site.url}/connections/${id}`);
      expect(await health(agent)).toMatch(/^(unverified|reconnect_needed)$/);
      result.refusal = [...new Set([...result.refusal, `${status} \`${json.code}\``])];
      await press(agent, await connectionPage(agent), /^Reconnect/);
      expect(await health(agent)).toBe('active');
      await expectRead();
      const before = simulator().refreshes();
      expire();
      await expectRead();
      expect(simulator().refreshes() - before).toBe(lifetime === undefined ? 0 : 1);
      result.reconnect = 'heals';
    },
  );

  test('signs users in if it is an OpenID provider', async () => {
    if (!simulator().isOpenId) return;
    const agent = createUserAgent();
    await agent.get(`${site.url}/sign-in?app=${id}`);
    const { json } = await getJson(agent, `${site.url}/session`);
    expect(json).toMatchObject({ signedIn: true, user: { email: 'ada@example.test' } });
    result.signIn = 'works';
  });

  test('can be disconnected', async () => {
    const agent = await visit();
    const revocations = simulator().revocations();
    const page = await press(agent, await connectionPage(agent), /^Disconnect$/);
    expect([page.status, await health(agent)]).toEqual([200, undefined]);
    const { hasRevocationEndpoint, acceptsRevocation } = simulator();
    expect(simulator().revocations() > revocations).toBe(acceptsRevocation);
    const deleted = hasRevocationEndpoint ? 'deleted in Gatehouse, revocation refused' : 'deleted in Gatehouse';
    result.disconnect = acceptsRevocation ? 'revoked' : deleted;
    results.push(result);
  });
});

test('every preset is tried', () => {
  expect(PROFILES.map(({ preset }) => preset)).toEqual(PRESETS.map(({ id }) => id));
});

test('docs/providers.md shows these results', async () => {
  await expect(insertResults(readFileSync(DOCUMENT, 'utf8'), results)).toMatchFileSnapshot(DOCUMENT);
});
