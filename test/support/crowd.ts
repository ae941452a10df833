/** Many signed-in users on a few real processes. Their sessions and grants are written to the store directly. */

import { randomBytes } from 'node:crypto';
import { sign } from 'cookie-signature';
import { Cookie, type SessionData } from 'express-session';
import { registrationOf } from '../../src/gatehouse/connected-apps/registration.ts';
import { newConnectionId } from '../../src/gatehouse/grants/connection-ids.ts';
import type { Grant } from '../../src/gatehouse/grants/grant.ts';
import { userIdOf } from '../../src/gatehouse/users/user-id.ts';
import { sessionCookieName } from '../../src/shared/sessions/browser-sessions.ts';
import { createSessionLists } from '../../src/shared/sessions/session-lists.ts';
import { createSessionRecords } from '../../src/shared/sessions/session-record.ts';
import { retryWhileUnavailable } from '../../src/shared/storage/retry.ts';
import { createSealedJson } from '../../src/shared/storage/sealed-json.ts';
import { appOfFile } from './apps.ts';
import { type CrowdProvider, startCrowdProvider } from './crowd-provider.ts';
import { type BrowserSession, type Deployment, type Member, type StoreKind, startDeployment } from './fleet.ts';
import { type ReceivedResponse, sendRequest } from './send-request.ts';

export interface CrowdUser extends BrowserSession {
  name: string;
  userId: string;
}

export interface Crowd extends Deployment {
  provider: CrowdProvider;
  /** The users with a session. Others have only a grant. */
  users: readonly CrowdUser[];
  /** Adds grants with an expired access token, and a refresh token that the provider accepts once. */
  addGrants(from: number, to: number): Promise<void>;
  addUsers(from: number, to: number): Promise<void>;
  /** Makes this user's access token expire. */
  expire(person: CrowdUser): Promise<void>;
  callManagement(member: Member, path: string): Promise<ReceivedResponse>;
}

export interface CrowdOptions {
  kind: StoreKind;
  processes: number;
  users: number;
  env?: Record<string, string>;
  /** Settings of an existing Redis, instead of a new one. */
  otherRedis?: Record<string, string>;
}

/** Number of concurrent writes. */
const CONCURRENT_WRITES = 200;

export async function startCrowd(options: CrowdOptions): Promise<Crowd> {
  const { kind, processes, otherRedis } = options;
  const deployment = await startDeployment({
    name: 'crowd',
    kind,
    processes,
    otherRedis,
    env: { SHUTDOWN_SECONDS: '10', ...options.env },
    startProvider: startCrowdProvider,
    apps: (url, provider) => [appOf(url, provider.url)],
  });

  const { provider, storage, env } = deployment;
  const people: CrowdUser[] = [];
  const seeds = createSeeds({ storage, provider, env });
  const crowd: Crowd = {
    ...deployment,
    users: people,
    addGrants: (from, to) => inBatches(from, to, seeds.addGrant),
    async addUsers(from, to) {
      await inBatches(from, to, async (n) => void people.push(await seeds.addUser(n)));
    },
    async expire({ userId }) {
      const stored = await storage.grants.loadStored(userId, 'platform');
      if (!stored || 'unreadable' in stored) throw new Error(`No readable grant of ${userId}.`);
      const now = Date.now();
      const grant = { ...stored.grant, obtainedAt: now - 3_600_000, expiresAt: now - 1_000 };
      if (!(await storage.grants.save(grant, stored.version))) throw new Error('Another process wrote this grant.');
    },
    callManagement: (member, path) => sendRequest(`http://127.0.0.1:${member.env.MANAGEMENT_PORT}${path}`),
  };
  await crowd.addUsers(0, options.users);
  return crowd;
}

/** The provider does not support OpenID Connect: it has no sign-in and no discovery. */
function appOf(url: string, providerUrl: string): Record<string, unknown> {
  return {
    id: 'platform',
    name: 'Crowd',
    issuer: providerUrl,
    clientId: 'crowd',
    clientSecret: { env: 'TEST_CLIENT_SECRET' },
    scopes: ['read'],
    callbackUrls: [`${url}/oauth/callback/platform`],
    endpoints: {
      authorization: `${providerUrl}/authorize`,
      token: `${providerUrl}/token`,
      revocation: `${providerUrl}/revoke`,
    },
    apiBaseUrl: providerUrl,
  };
}

function createSeeds({ storage, provider, env }: Pick<Crowd, 'storage' | 'provider' | 'env'>) {
  const secret = env.SESSION_SECRETS ?? '';
  const cookieName = sessionCookieName(env.PUBLIC_URL ?? '');
  const registration = registrationOf(appOfFile(env));
  const lists = createSessionLists({ store: storage.store, maxSeconds: 28_800, clock: Date.now });
  const lifetimes = { idleSeconds: 1_800, maxSeconds: 28_800 };
  const records = createSessionRecords({
    store: storage.store,
    sealedJson: createSealedJson(storage.sealer),
    lists,
    lifetimes,
    clock: Date.now,
  });
  const nameOf = (n: number) => `person-${n}`;

  const addGrant = async (n: number): Promise<void> => {
    const userId = userIdOf(provider.url, nameOf(n));
    const now = Date.now();
    const { accessToken, refreshToken } = provider.issue(userId);
    const grant: Grant = {
      id: newConnectionId(),
      userId,
      appId: 'platform',
      registration,
      accessToken,
      refreshToken,
      scopes: ['read'],
      account: { subject: nameOf(n) },
      connectedAt: now,
      consentedAt: now,
      obtainedAt: now - 3_600_000,
      expiresAt: now - 1_000,
      failure: undefined,
      refresh: undefined,
    };
    await storage.grants.save(grant, 0);
  };

  return {
    addGrant,
    async addUser(n: number): Promise<CrowdUser> {
      await addGrant(n);
      const name = nameOf(n);
      const userId = userIdOf(provider.url, name);
      const sessionId = randomBytes(24).toString('base64url');
      const csrfToken = randomBytes(24).toString('base64url');
      const user = { id: userId, issuer: provider.url, subject: name, name, email: undefined, admin: false };
      const data = { cookie: new Cookie(), user, csrfToken, app: 'platform' } as unknown as SessionData;
      await records.write(sessionId, data);
      const cookie = `${cookieName}=${encodeURIComponent(`s:${sign(sessionId, secret)}`)}`;
      return { name, userId, csrfToken, cookie };
    },
  };
}

async function inBatches(from: number, to: number, work: (n: number) => Promise<void>): Promise<void> {
  for (let first = from; first < to; first += CONCURRENT_WRITES) {
    const size = Math.min(CONCURRENT_WRITES, to - first);
    // So many concurrent writes may make a storage wait for its disk.
    await Promise.all(Array.from({ length: size }, (_, n) => retryWhileUnavailable(() => work(first + n))));
  }
}
