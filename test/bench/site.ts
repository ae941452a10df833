/** The site of a benchmark: platform and identity provider in separate processes, settings, a signed-in browser. */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { generateEncryptionKey } from '../../src/shared/storage/key-ring.ts';
import { CLIENT_SECRET, signIn as signInSite } from '../support/gatehouse.ts';
import { freePort } from '../support/ports.ts';
import { APPEND_ONLY_EACH_SECOND, type RedisServer, startRedis } from '../support/redis-server.ts';
import { type Measured, startGatehouseProcess, startProcess } from './process.ts';

export const CLIENT_ID = 'bench';
/** Accounts at the identity provider in addition to the built-in ones. */
const USERS_OF_PROVIDER = 1_000;
export const SCOPES = ['openid', 'profile', 'email', 'offline_access', 'platform_read_only'];

/** The port on which a server of a benchmark will listen. */
export interface Address {
  url: string;
  port: number;
}

export async function reserveAddress(): Promise<Address> {
  const port = await freePort();
  return { port, url: `http://127.0.0.1:${port}` };
}

export interface Platform {
  url: string;
  /** `drip`: responses stop in the middle until `whole`. Both return the number of open connections. */
  control(command: 'drip' | 'whole' | 'count'): Promise<number>;
  stop(): Promise<void>;
}

export async function startPlatform(): Promise<Platform> {
  const upstream = await startProcess('test/bench/upstream.ts');
  const [port, controlPort] = upstream.firstLine.split(' ');
  return {
    url: `http://127.0.0.1:${port}`,
    control: async (command) => Number(await (await fetch(`http://127.0.0.1:${controlPort}/${command}`)).text()),
    stop: upstream.stop,
  };
}

export interface IdentityProvider {
  issuer: string;
  stop(): Promise<void>;
}

/** Starts the identity provider with one app for all these callback URLs. */
export async function startIdentityProvider(addresses: readonly Address[]): Promise<IdentityProvider> {
  const callbacks = addresses.flatMap(({ url }) => [`${url}/oauth/callback/platform`, `${url}/callback`]);
  const env = {
    CLIENT_ID,
    CLIENT_SECRET,
    CALLBACK_URLS: callbacks.join(' '),
    USERS_OF_PROVIDER: String(USERS_OF_PROVIDER),
  };
  const provider = await startProcess('test/bench/identity-provider.ts', { env });
  return { issuer: provider.firstLine, stop: provider.stop };
}

export type Storage = 'embedded' | 'Redis';

export interface Site {
  url: string;
  env: Record<string, string>;
  process: Measured;
  redis: RedisServer | undefined;
  stop(): Promise<void>;
}

/** Returns settings with an empty storage. Only its Redis runs yet. */
export async function prepareGatehouse(parts: {
  address: Address;
  storage: Storage;
  issuer: string;
  platformUrl: string;
}): Promise<Omit<Site, 'process'>> {
  const { url, port } = parts.address;
  const directory = mkdtempSync(join(tmpdir(), 'gatehouse-bench-'));
  const redis = parts.storage === 'Redis' ? await startRedis(APPEND_ONLY_EACH_SECOND) : undefined;
  const appsFile = join(directory, 'connected-apps.json');
  writeFileSync(appsFile, JSON.stringify([appOf(url, parts.issuer, parts.platformUrl)]));
  const env: Record<string, string> = {
    PUBLIC_URL: url,
    PORT: String(port),
    MANAGEMENT_PORT: String(await freePort()),
    DATA_DIR: join(directory, 'data'),
    SESSION_SECRETS: randomBytes(48).toString('base64'),
    ENCRYPTION_KEYS: generateEncryptionKey(new Date()),
    CONNECTED_APPS_FILE: appsFile,
    ADMIN_VALUES: 'gatehouse-admins',
    INTERNAL_HOSTS: '127.0.0.1',
    BENCH_CLIENT_SECRET: CLIENT_SECRET,
    // One browser from one address sends all requests. They are counted as usual, with higher limits.
    RATE_LIMIT_PER_ADDRESS_PER_MINUTE: '100000000',
    RATE_LIMIT_SIGN_INS_PER_ADDRESS_PER_MINUTE: '100000000',
    RATE_LIMIT_PER_SESSION_PER_MINUTE: '100000000',
    RATE_LIMIT_PER_RELAY_TOKEN_PER_MINUTE: '100000000',
    ...(redis ? { REDIS_URL: redis.url } : {}),
  };
  const stop = async () => {
    await redis?.dispose();
    rmSync(directory, { recursive: true, force: true });
  };
  return { url, env, redis, stop };
}

/** Starts the shipped Gatehouse with all features. */
export async function startGatehouse(parts: Parameters<typeof prepareGatehouse>[0]): Promise<Site> {
  const prepared = await prepareGatehouse(parts);
  const process = await startGatehouseProcess(prepared.env);
  const stop = async () => {
    await process.stop();
    await prepared.stop();
  };
  return { ...prepared, process, stop };
}

function appOf(url: string, issuer: string, apiBaseUrl: string): Record<string, unknown> {
  return {
    id: 'platform',
    name: 'Bench',
    issuer,
    clientId: CLIENT_ID,
    clientSecret: { env: 'BENCH_CLIENT_SECRET' },
    scopes: SCOPES,
    callbackUrls: [`${url}/oauth/callback/platform`],
    apiBaseUrl,
    routes: [{ name: 'thread', method: 'GET', path: '/1/threads/{id}' }],
    signIn: { allow: 'everyone' },
  };
}

export interface SignedIn {
  /** The `Cookie` header of the browser. */
  cookie: string;
  /** The body of GET /session after the sign-in. */
  session: Record<string, unknown>;
}

let signedIn = 0;

/**
 * Signs in a new browser through all forms. Uses another account each time, so that no user has hundreds of sessions.
 */
export async function signIn(url: string, path = '/sign-in?return_to=/session'): Promise<SignedIn> {
  const login = `user-${signedIn % USERS_OF_PROVIDER}@example.test`;
  signedIn += 1;
  const { agent, page } = await signInSite({ url }, login, { path });
  const session = page.status === 200 && page.url === `${url}/session` ? JSON.parse(page.body) : {};
  if (session.signedIn !== true) throw new Error(`The sign-in at ${url} ended with ${page.status} at ${page.url}.`);
  return { cookie: agent.cookies.header(url), session };
}

/** Runs the work, and then stops every process that it passed to `keep`. */
export async function withAll<T>(
  work: (keep: <S extends { stop(): Promise<void> }>(process: S) => S) => Promise<T>,
): Promise<T> {
  const kept: { stop(): Promise<void> }[] = [];
  try {
    return await work((process) => {
      kept.push(process);
      return process;
    });
  } finally {
    for (const process of kept.toReversed()) await process.stop();
  }
}
