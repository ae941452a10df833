/**
 * R117 with two processes on one storage: a deletion in one process and a callback in the other leave nothing, with a
 * quick provider and a slow one. `ROUNDS` makes more of them.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { BrokenResponse } from '../../support/broken-responses.ts';
import { createUserAgent, type UserAgent } from '../../support/browserless.ts';
import { type Deployment, type StoreKind, startDeployment } from '../../support/fleet.ts';
import { getJson } from '../../support/gatehouse.ts';
import { type HostileProvider, startHostileProvider } from '../../support/hostile-provider.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { missingRedis } from '../../support/redis-server.ts';
import { until } from '../../support/until.ts';
import { type Administrator, createAdministrator } from '../relay/service.ts';
import { begin, callbackFor } from '../sign-in/attempt.ts';

const ROUNDS = Number(process.env.ROUNDS ?? 200);
const CONCURRENT_ROUNDS = 10;

interface User {
  agent: UserAgent;
  userId: string;
}

interface Round {
  isDeleted: boolean;
  /** The apps whose connections the two requests of the round left in the storage. */
  remainingApps: string[];
}

describe.each<StoreKind>(['SQLite', 'Redis'])('R117 on %s', (kind) => {
  const missing = kind === 'Redis' ? missingRedis : undefined;
  let site: Deployment & { provider: HostileProvider };
  let admin: Administrator;
  /** Refresh tokens that the provider issued and that were not revoked. */
  const unrevokedTokens = new Set<string>();
  beforeAll(async () => {
    if (missing) return;
    const clientSecret = 'secret of a race';
    site = await startDeployment({
      name: 'gone',
      kind,
      processes: 2,
      env: { HOSTILE_CLIENT_SECRET: clientSecret },
      startProvider: () => startHostileProvider({ clientSecret }),
      apps: (url, provider) => [
        provider.app(url),
        provider.app(url, { id: 'files', name: 'Files', signIn: undefined }),
      ],
    });
    // Callbacks go to PUBLIC_URL, which is the first process; deletions to the second.
    admin = await createAdministrator(site.member(1), site.storage);
  });
  beforeEach(() => unrevokedTokens.clear());
  afterAll(() => site?.close());

  /** Lets the provider take this long to redeem a code. */
  function delayTokenResponses(delay: () => number): void {
    site.provider.reset();
    const token: BrokenResponse = (res, { body }) => {
      const { refresh_token: refreshToken } = JSON.parse(body);
      if (refreshToken) unrevokedTokens.add(refreshToken);
      setTimeout(() => res.writeHead(200, { 'content-type': 'application/json' }).end(body), delay());
    };
    site.provider.setModes({ responses: { token } });
  }

  const countUnrevoked = () => {
    for (const { body } of site.provider.hitsOf('revocation'))
      unrevokedTokens.delete(new URLSearchParams(body).get('token') ?? '');
    return unrevokedTokens.size;
  };

  let users = 0;
  async function signInNewUser(): Promise<User & { sub: string }> {
    users += 1;
    const sub = `user-${users}`;
    site.provider.signInAs({ sub });
    const agent = createUserAgent();
    await agent.get(`${site.url}/sign-in`);
    const { user } = (await getJson(agent, `${site.url}/session`)).json as { user?: { id: string } };
    if (!user) throw new Error('Not signed in.');
    return { agent, userId: user.id, sub };
  }

  /** The callback of a connection that the user has allowed and no browser has opened. */
  async function callbackOfConnection({ agent }: User, app: string): Promise<string> {
    const { csrfToken } = (await getJson(agent, `${site.url}/session`)).json;
    const started = await agent.request(`${site.url}/connections/${app}`, {
      method: 'POST',
      body: new URLSearchParams({ _csrf: String(csrfToken) }),
      follow: false,
    });
    return (await callbackFor(started.headers.get('location') ?? '')).href;
  }

  const grantsOf = async (userId: string) => (await site.storage.grants.list(userId)).map(({ appId }) => appId);

  /**
   * Runs the rounds, some at once, with the deletion at any moment of the callback.
   * @returns how many deletions there were
   */
  async function race(rounds: (() => Promise<Round>)[]): Promise<number> {
    const ended: Round[] = [];
    const queue = rounds.values();
    await Promise.all(
      Array.from({ length: CONCURRENT_ROUNDS }, async () => {
        for (const round of queue) ended.push(await round());
      }),
    );
    expect(ended.filter((round) => round.isDeleted && round.remainingApps.length > 0)).toEqual([]);
    return ended.filter(({ isDeleted }) => isDeleted).length;
  }

  const pausesOf = (delay: () => number): [() => Promise<void>, () => Promise<void>] => [
    () => sleep(Math.random() * 10),
    () => sleep(Math.random() * (delay() + 20)),
  ];

  const SPEEDS: [name: string, delay: () => number][] = [
    ['at once', () => 0],
    ['after 50 to 300 ms', () => 50 + Math.random() * 250],
  ];

  describe.each(SPEEDS)('with a provider that responds %s', (_name, delay) => {
    const [beforeCallback, beforeDeletion] = pausesOf(delay);

    test(`${ROUNDS} users who are deleted during the callback of a connection leave nothing`, async (context) => {
      skipIfMissing(context, missing);
      delayTokenResponses(() => 0);
      const rounds: (() => Promise<Round>)[] = [];
      for (let at = 0; at < ROUNDS; at += 1) {
        const user = await signInNewUser();
        const callback = await callbackOfConnection(user, 'files');
        rounds.push(async () => {
          const [{ status }] = await Promise.all([
            beforeDeletion().then(() => admin.call('DELETE', `/users/${user.userId}`)),
            // No redirect is followed: it would lead the user to sign in again.
            beforeCallback().then(() => user.agent.request(callback, { follow: false })),
          ]);
          expect((await admin.call('GET', `/users/${user.userId}`)).status).toBe(404);
          return { isDeleted: status === 200, remainingApps: await grantsOf(user.userId) };
        });
      }
      delayTokenResponses(delay);
      expect(await race(rounds)).toBe(ROUNDS);
      await until(() => countUnrevoked() === 0);
    });

    test(`${ROUNDS} users who are deleted during the callback of a sign-in leave nothing`, async (context) => {
      skipIfMissing(context, missing);
      delayTokenResponses(() => 0);
      const rounds: (() => Promise<Round>)[] = [];
      for (let at = 0; at < ROUNDS; at += 1) {
        const { userId } = await signInNewUser();
        const { agent, location } = await begin(site);
        const callback = (await callbackFor(location)).href;
        rounds.push(async () => {
          const [{ status }] = await Promise.all([
            beforeDeletion().then(() => admin.call('DELETE', `/users/${userId}`)),
            beforeCallback().then(() => agent.get(callback)),
          ]);
          expect((await getJson(agent, `${site.url}/session`)).json.signedIn).toBe(false);
          expect((await admin.call('GET', `/users/${userId}`)).status).toBe(404);
          return { isDeleted: status === 200, remainingApps: await grantsOf(userId) };
        });
      }
      delayTokenResponses(delay);
      expect(await race(rounds)).toBe(ROUNDS);
      // Two sign-ins of one account have one grant at most providers, so one token of each user is revoked.
      await until(() => site.provider.hitsOf('revocation').length >= ROUNDS);
    });

    test(`${ROUNDS} apps that are deleted during a callback leave no connection`, async (context) => {
      skipIfMissing(context, missing);
      delayTokenResponses(() => 0);
      const user = await signInNewUser();
      const { clientSecret: _, ...registration } = site.provider.app(site.url, { signIn: undefined });
      const rounds: (() => Promise<Round>)[] = [];
      for (let at = 0; at < ROUNDS; at += 1) {
        const id = `app-${users}-${at}`;
        const callbackUrls = [`${site.url}/oauth/callback/${id}`];
        const app = { ...registration, id, name: id, callbackUrls, clientSecret: site.provider.clientSecret };
        rounds.push(async () => {
          expect((await admin.call('POST', '/connected-apps', app)).status).toBe(201);
          await until(async () => (await user.agent.get(`${site.url}/connections/${id}`)).status === 200);
          const callback = await callbackOfConnection(user, id);
          const [{ status }] = await Promise.all([
            beforeDeletion().then(() => admin.call('DELETE', `/connected-apps/${id}`)),
            beforeCallback().then(() => user.agent.get(callback)),
          ]);
          const remainingApps = (await grantsOf(user.userId)).filter((app) => app === id);
          return { isDeleted: status < 300, remainingApps };
        });
      }
      delayTokenResponses(delay);
      // The others were refused, because the user was connected by then.
      expect(await race(rounds)).toBeGreaterThan(ROUNDS / 10);
      const connected = await grantsOf(user.userId);
      await until(() => countUnrevoked() === connected.length);
      expect((await admin.call('DELETE', `/users/${user.userId}`)).status).toBe(200);
    });
  });
});
