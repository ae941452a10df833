/** Many signed-in people on a few real processes: their sessions and grants are put into the store, not made by sign-ins. */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sign } from 'cookie-signature';
import { Cookie, type SessionData } from 'express-session';
import type { Grant } from '../../src/grants/grant.ts';
import { createSessionLists } from '../../src/http/session-lists.ts';
import { createSessionRecords } from '../../src/http/session-record.ts';
import { userIdOf } from '../../src/sign-in/identity.ts';
import { generateEncryptionKey } from '../../src/storage/key-ring.ts';
import { patiently } from '../../src/storage/patience.ts';
import { type Asked, ask, DATA, FORM } from './ask.ts';
import { type CrowdProvider, startCrowdProvider } from './crowd-provider.ts';
import { createMember, type Member, openVault, type StoreKind, type Vault } from './fleet.ts';
import { CLIENT_SECRET } from './gatehouse.ts';
import { freePort } from './ports.ts';
import { type RedisServer, startRedis } from './redis-server.ts';

export interface CrowdPerson {
  name: string;
  userId: string;
  cookie: string;
  csrfToken: string;
}

export interface Crowd {
  provider: CrowdProvider;
  members: readonly Member[];
  member(at: number): Member;
  /** Those with a session; the others have only a grant. */
  people: readonly CrowdPerson[];
  env: Record<string, string>;
  dataDirectory: string;
  redis: RedisServer | undefined;
  vault: Vault;
  /** Grants whose access token has ended, with a refresh token that the provider takes once. */
  addGrants(from: number, to: number): Promise<void>;
  addPeople(from: number, to: number): Promise<void>;
  /** What time would do to this person's access token. */
  expire(person: CrowdPerson): Promise<void>;
  thread(member: Member, person: CrowdPerson): Promise<Asked>;
  manage(member: Member, path: string): Promise<Asked>;
  post(member: Member, path: string, person: CrowdPerson): Promise<Asked>;
  /** Everything that all processes have printed. */
  output(): string;
  close(): Promise<void>;
}

export interface CrowdOptions {
  kind: StoreKind;
  processes: number;
  people: number;
  /** In place of a Redis of the crowd's own. */
  env?: Record<string, string>;
  redisArgs?: readonly string[];
}

/** How many are written at the same time. */
const WRITTEN_AT_ONCE = 200;

export async function startCrowd(options: CrowdOptions): Promise<Crowd> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const directory = mkdtempSync(join(tmpdir(), 'gatehouse-crowd-'));
  const ownRedis = options.kind === 'Redis' && options.env === undefined;
  const redis = ownRedis ? await startRedis(options.redisArgs) : undefined;
  const provider = await startCrowdProvider();
  const appsFile = join(directory, 'connected-apps.json');
  writeFileSync(appsFile, JSON.stringify([appOf(url, provider.url)]));
  const dataDirectory = join(directory, 'data');
  const env: Record<string, string> = {
    PUBLIC_URL: url,
    DATA_DIR: dataDirectory,
    SESSION_SECRETS: randomBytes(48).toString('base64'),
    ENCRYPTION_KEYS: generateEncryptionKey(new Date()),
    CONNECTED_APPS_FILE: appsFile,
    INTERNAL_HOSTS: '127.0.0.1',
    TEST_CLIENT_SECRET: CLIENT_SECRET,
    SHUTDOWN_SECONDS: '10',
    ...(redis ? { REDIS_URL: redis.url } : {}),
    ...options.env,
  };
  const printed: (() => string)[] = [];
  const members: Member[] = [];
  for (let at = 0; at < options.processes; at += 1) {
    const own = { PORT: String(at === 0 ? port : await freePort()), MANAGEMENT_PORT: String(await freePort()) };
    members.push(createMember({ ...env, ...own }, printed));
  }
  let vault: Vault | undefined;
  const close = async () => {
    await Promise.all(members.map((member) => member.kill()));
    await vault?.store.close();
    await provider.close();
    await redis?.dispose();
    rmSync(directory, { recursive: true, force: true });
  };
  try {
    await Promise.all(members.map((member) => member.start()));
    vault = await openVault(env);
  } catch (error) {
    await close();
    throw error;
  }

  const people: CrowdPerson[] = [];
  const seeds = createSeeds({ vault, provider, secret: env.SESSION_SECRETS ?? '' });
  const headers = (person: CrowdPerson) => ({ ...DATA, host: `127.0.0.1:${port}`, cookie: person.cookie });
  const crowd: Crowd = {
    ...{ provider, members, people, env, dataDirectory, redis, vault, close },
    member(at) {
      const member = members[at];
      if (!member) throw new Error(`There is no process ${at}.`);
      return member;
    },
    addGrants: (from, to) => inTurns(from, to, seeds.addGrant),
    async addPeople(from, to) {
      await inTurns(from, to, async (n) => void people.push(await seeds.addPerson(n)));
    },
    async expire({ userId }) {
      const stored = await vault.grants.load(userId, 'platform');
      if (!stored || 'unreadable' in stored) throw new Error(`No readable grant of ${userId}.`);
      const now = Date.now();
      const grant = { ...stored.grant, obtainedAt: now - 3_600_000, expiresAt: now - 1_000 };
      if (!(await vault.grants.save(grant, stored.version))) throw new Error('Somebody else wrote this grant.');
    },
    manage: (member, path) => ask(`http://127.0.0.1:${member.env.MANAGEMENT_PORT}${path}`),
    thread: (member, person) => ask(`${member.url}/threads/current`, { headers: headers(person) }),
    post: (member, path, person) =>
      ask(member.url + path, {
        method: 'POST',
        headers: { ...headers(person), ...FORM },
        body: new URLSearchParams({ _csrf: person.csrfToken }).toString(),
      }),
    output: () => printed.map((text) => text()).join('\n'),
  };
  await crowd.addPeople(0, options.people);
  return crowd;
}

/** No OpenID provider: nobody signs in with it, and it has no discovery. */
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

function createSeeds({ vault, provider, secret }: { vault: Vault; provider: CrowdProvider; secret: string }) {
  const lists = createSessionLists({ store: vault.store, maxSeconds: 28_800, clock: Date.now });
  const lifetimes = { idleSeconds: 1_800, maxSeconds: 28_800 };
  const records = createSessionRecords({ store: vault.store, lists, lifetimes, clock: Date.now });
  const nameOf = (n: number) => `person-${n}`;

  const addGrant = async (n: number): Promise<void> => {
    const userId = userIdOf(provider.url, nameOf(n));
    const now = Date.now();
    const { accessToken, refreshToken } = provider.give(userId);
    const grant: Grant = {
      ...{ userId, appId: 'platform', accessToken, refreshToken, idToken: undefined },
      ...{ scopes: ['read'], account: { subject: nameOf(n) }, connectedAt: now },
      ...{ obtainedAt: now - 3_600_000, expiresAt: now - 1_000, trouble: undefined, refresh: undefined },
    };
    await vault.grants.save(grant, 0);
  };

  return {
    addGrant,
    async addPerson(n: number): Promise<CrowdPerson> {
      await addGrant(n);
      const name = nameOf(n);
      const userId = userIdOf(provider.url, name);
      const sessionId = randomBytes(24).toString('base64url');
      const csrfToken = randomBytes(24).toString('base64url');
      const user = { id: userId, issuer: provider.url, subject: name, name, email: undefined, admin: false };
      const data = { cookie: new Cookie(), user, csrfToken, app: 'platform' } as unknown as SessionData;
      await records.write(sessionId, data);
      return { name, userId, csrfToken, cookie: `gatehouse=${encodeURIComponent(`s:${sign(sessionId, secret)}`)}` };
    },
  };
}

async function inTurns(from: number, to: number, work: (n: number) => Promise<void>): Promise<void> {
  for (let first = from; first < to; first += WRITTEN_AT_ONCE) {
    const size = Math.min(WRITTEN_AT_ONCE, to - first);
    // So much at once may make a storage wait for its disk.
    await Promise.all(Array.from({ length: size }, (_, n) => patiently(() => work(first + n))));
  }
}
