/** Several real processes of one deployment, on one database or one Redis, with the sandbox or another provider. */

import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createBinService } from '../../src/bin-lookup-service/service.ts';
import type { Grant } from '../../src/gatehouse/grants/grant.ts';
import { createGrantStore, type GrantStore } from '../../src/gatehouse/grants/grant-store.ts';
import { userIdOf } from '../../src/gatehouse/users/user-id.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { loadStorageConfig } from '../../src/shared/config/config.ts';
import { generateEncryptionKey } from '../../src/shared/storage/key-ring.ts';
import { createRedisStore } from '../../src/shared/storage/redis/store.ts';
import type { Sealer } from '../../src/shared/storage/sealed.ts';
import { createSealedJson } from '../../src/shared/storage/sealed-json.ts';
import { createSqliteStore } from '../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../src/shared/storage/store.ts';
import { sealerOf } from './encryption-keys.ts';
import { CLIENT_SECRET, sandboxApp, signIn } from './gatehouse.ts';
import { freePort } from './ports.ts';
import { type Program, startProgram } from './program.ts';
import { type RedisServer, startRedis } from './redis-server.ts';
import { ACCEPT_JSON, FORM_BODY, type ReceivedResponse, sendRequest } from './send-request.ts';
import { type TokenEndpoint, watchTokenEndpoint } from './token-endpoint.ts';

export type StoreKind = 'SQLite' | 'Redis';

/** One signed-in browser. */
export interface BrowserSession {
  cookie: string;
  csrfToken: string;
}

export interface FleetUser extends BrowserSession {
  login: string;
  userId: string;
}

export interface Member {
  readonly url: string;
  readonly program: Program;
  /** The environment of its next start. */
  readonly env: Record<string, string>;
  isRunning(): boolean;
  /** Resolves once it is ready. */
  start(): Promise<void>;
  signal(name: NodeJS.Signals): void;
  /** Ends it as a crash would, and resolves when it has ended. */
  kill(): Promise<void>;
}

/** The store of the processes, opened by the test as well. */
export interface SharedStorage {
  store: Store;
  sealer: Sealer;
  grants: GrantStore;
  readGrant(userId: string): Promise<Grant>;
}

/** The processes with their shared parts, and calls to them. */
export interface Deployment {
  url: string;
  members: readonly Member[];
  member(at: number): Member;
  env: Record<string, string>;
  /** The folder of the SQLite database. */
  dataDirectory: string;
  redis: RedisServer | undefined;
  storage: SharedStorage;
  get(member: Member, path: string, person: BrowserSession): Promise<ReceivedResponse>;
  post(member: Member, path: string, person: BrowserSession): Promise<ReceivedResponse>;
  thread(member: Member, person: BrowserSession): Promise<ReceivedResponse>;
  /** The output of all processes so far. */
  output(): string;
  close(): Promise<void>;
}

export interface Fleet extends Deployment {
  sandbox: Sandbox;
  tokenEndpoint: TokenEndpoint;
  signIn(login: string): Promise<FleetUser>;
  health(member: Member, person: FleetUser): Promise<{ health: string; cause: string | null }>;
}

export const LOGINS = ['user@example.test', 'second@example.test', 'admin@example.test'];

export async function startFleet(options: {
  kind: StoreKind;
  processes: number;
  env?: Record<string, string>;
  /** Arguments of the Redis. Default: it persists all data. */
  redis?: readonly string[];
  /** Settings of an existing Redis, instead of a new one. */
  otherRedis?: Record<string, string>;
  /** Default: one app of the sandbox. */
  apps?: (urls: { url: string; sandbox: Sandbox }) => Record<string, unknown>[];
}): Promise<Fleet> {
  const { kind, processes, redis, otherRedis } = options;
  const { provider, ...deployment } = await startDeployment({
    name: 'fleet',
    kind,
    processes,
    redis,
    otherRedis,
    env: { SHUTDOWN_SECONDS: '5', ...options.env },
    async startProvider(url) {
      const sandbox = await startSandbox({
        clients: [
          {
            clientId: 'test-platform',
            clientSecret: CLIENT_SECRET,
            redirectUris: [`${url}/oauth/callback/platform`],
            postLogoutRedirectUris: [`${url}/`],
          },
        ],
        binService: createBinService(),
        accessTokenSeconds: 3_600,
        refreshTokens: { graceSeconds: 3_600 },
        // The tests call far more often than the platform's default limits allow, and Gatehouse obeys those limits.
        rateLimits: { perUserPerMinute: 1_000_000, perUserPerHour: 1_000_000, perCompanyPerMinute: 1_000_000 },
      });
      const tokenEndpoint = watchTokenEndpoint(sandbox);
      return {
        sandbox,
        tokenEndpoint,
        close() {
          tokenEndpoint.close();
          return sandbox.close();
        },
      };
    },
    apps: (url, { sandbox }) => options.apps?.({ url, sandbox }) ?? [sandboxApp({ url, sandbox }, 'platform')],
  });
  const { sandbox, tokenEndpoint } = provider;
  const { url, get } = deployment;
  return {
    ...deployment,
    sandbox,
    tokenEndpoint,
    async signIn(login) {
      const { agent, page } = await signInWithRetries(url, login);
      const { sandboxAccount: account } = accountOf(sandbox, login);
      const person = {
        login,
        userId: userIdOf(sandbox.issuer, account),
        cookie: agent.cookies.header(url),
        csrfToken: '',
      };
      const session = JSON.parse((await get(deployment.member(0), '/session', person)).body);
      if (!session.signedIn) throw new Error(`${login} is not signed in: ${page.status} at ${page.url}`);
      return { ...person, csrfToken: String(session.csrfToken) };
    },
    async health(member, person) {
      const { items } = JSON.parse((await get(member, '/connections', person)).body);
      const [{ health, cause }] = items;
      return { health, cause };
    },
  };
}

/**
 * Starts processes on an empty store with this provider. `close` also ends the provider and the Redis that this starts.
 * @param options `name`: part of the folder's name; `redis`: arguments of a new Redis; `otherRedis`: settings of an
 *   existing Redis; `env`: added to the usual settings, or overriding them
 * @throws Error if the settings are for another kind of store
 */
export async function startDeployment<Provider extends { close(): Promise<void> }>(options: {
  name: string;
  kind: StoreKind;
  processes: number;
  redis?: readonly string[] | undefined;
  otherRedis?: Record<string, string> | undefined;
  env: Record<string, string>;
  startProvider: (url: string) => Promise<Provider>;
  apps: (url: string, provider: Provider) => Record<string, unknown>[];
}): Promise<Deployment & { provider: Provider }> {
  const redis = options.kind === 'Redis' && !options.otherRedis ? await startRedis(options.redis) : undefined;
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const directory = mkdtempSync(join(tmpdir(), `gatehouse-${options.name}-`));
  const provider = await options.startProvider(url);
  const appsFile = join(directory, 'connected-apps.json');
  writeFileSync(appsFile, JSON.stringify(options.apps(url, provider)));
  const dataDirectory = join(directory, 'data');
  const env: Record<string, string> = {
    PUBLIC_URL: url,
    DATA_DIR: dataDirectory,
    SESSION_SECRETS: randomBytes(48).toString('base64'),
    ENCRYPTION_KEYS: generateEncryptionKey(new Date()),
    CONNECTED_APPS_FILE: appsFile,
    ADMIN_VALUES: 'gatehouse-admins',
    INTERNAL_HOSTS: '127.0.0.1',
    TEST_CLIENT_SECRET: CLIENT_SECRET,
    ...(redis ? { REDIS_URL: redis.url } : options.otherRedis),
    // All users of a test sign in from one address, and faster than real users.
    RATE_LIMIT_SIGN_INS_PER_ADDRESS_PER_MINUTE: '0',
    ...options.env,
  };
  const printed: (() => string)[] = [];
  const members: Member[] = [];
  for (let at = 0; at < options.processes; at += 1) {
    const ports = { PORT: String(at === 0 ? port : await freePort()), MANAGEMENT_PORT: String(await freePort()) };
    members.push(createMember({ ...env, ...ports }, printed));
  }
  const close = async () => {
    await Promise.all(members.map((member) => member.kill()));
    await storage?.store.close();
    await provider.close();
    await redis?.dispose();
    rmSync(directory, { recursive: true, force: true });
  };
  let storage: SharedStorage | undefined;
  try {
    if (storeKindOf(env) !== options.kind) throw new Error(`These settings are not for ${options.kind}.`);
    await Promise.all(members.map((member) => member.start()));
    storage = await openSharedStorage(env);
  } catch (error) {
    await close();
    throw error;
  }

  const headers = ({ cookie }: BrowserSession) => ({ ...ACCEPT_JSON, host: new URL(url).host, cookie });
  const get = (member: Member, path: string, person: BrowserSession) =>
    sendRequest(member.url + path, { headers: headers(person) });
  return {
    url,
    provider,
    members,
    env,
    dataDirectory,
    redis,
    storage,
    get,
    close,
    member(at) {
      const member = members[at];
      if (!member) throw new Error(`There is no process ${at}.`);
      return member;
    },
    post: (member, path, person) =>
      sendRequest(member.url + path, {
        method: 'POST',
        headers: { ...headers(person), ...FORM_BODY },
        body: new URLSearchParams({ _csrf: person.csrfToken }).toString(),
      }),
    thread: (member, person) => get(member, '/threads/current', person),
    output: () => printed.map((text) => text()).join('\n'),
  };
}

export function createMember(env: Record<string, string>, printed: (() => string)[]): Member {
  let program: Program | undefined;
  let ended = true;
  const current = () => {
    if (!program) throw new Error('The process was never started.');
    return program;
  };
  return {
    url: `http://127.0.0.1:${env.PORT}`,
    env,
    get program() {
      return current();
    },
    isRunning: () => !ended,
    async start() {
      const started = startProgram(['node', 'src/server.ts'], env);
      program = started;
      ended = false;
      printed.push(() => started.stdout() + started.stderr());
      void started.ended.then(() => {
        if (program === started) ended = true;
      });
      await started.printed('Gatehouse is ready');
    },
    signal: (name) => current().signal(name),
    async kill() {
      if (!program || ended) return;
      program.signal('SIGKILL');
      await program.ended;
    },
  };
}

const storageOf = (env: Record<string, string>) => loadStorageConfig({ env, readFile: () => '' }).values;
const storeKindOf = (env: Record<string, string>): StoreKind => (storageOf(env).redis ? 'Redis' : 'SQLite');

export async function openSharedStorage(env: Record<string, string>): Promise<SharedStorage> {
  const { redis, dataDirectory } = storageOf(env);
  const store = redis ? await createRedisStore(redis) : await createSqliteStore({ directory: dataDirectory });
  const sealer = sealerOf(env);
  const grants = createGrantStore({ store, sealedJson: createSealedJson(sealer), clock: Date.now });
  return {
    store,
    sealer,
    grants,
    async readGrant(userId) {
      const stored = await grants.loadStored(userId, 'platform');
      if (!stored || 'unreadable' in stored) throw new Error(`No readable grant of ${userId}.`);
      return stored.grant;
    },
  };
}

function accountOf(sandbox: Sandbox, login: string): { sandboxAccount: string } {
  const account = sandbox.accounts.find((candidate) => candidate.login === login);
  if (!account) throw new Error(`The sandbox has no account ${login}.`);
  return { sandboxAccount: account.id };
}

/** `prlimit` simulates a full disk, and free space again. */
export const missingPrlimit = ['/usr/bin/prlimit', '/bin/prlimit'].some((path) => existsSync(path))
  ? undefined
  : 'prlimit';

/** Limits the size of files that this running process may write, in bytes. */
export const limitFileSize = (pid: number, bytes: number | 'unlimited') => limit(pid, `--fsize=${bytes}:`);

/** Limits the number of open files and connections. Those that are open stay open. */
export const limitOpenFiles = (pid: number, count: number | 'maximum') =>
  limit(pid, `--nofile=${count === 'maximum' ? MAX_OPEN_FILES : count}:`);
/** Any system allows the limit to be raised to this number again. */
const MAX_OPEN_FILES = 4_096;

function limit(pid: number, option: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn('prlimit', ['--pid', String(pid), option], { stdio: 'ignore' });
    child.once('error', reject);
    child.once('exit', (status) => (status === 0 ? resolve() : reject(new Error(`prlimit ended with ${status}.`))));
  });
}

const MAX_TRIES = 10;
const PAUSE_MILLISECONDS = 500;

/** Retries, because on a busy machine the store may miss its deadline. */
async function signInWithRetries(url: string, login: string): ReturnType<typeof signIn> {
  for (let tries = 1; ; tries += 1) {
    const signedIn = await signIn({ url }, login);
    if (signedIn.page.status !== 503 || tries === MAX_TRIES) return signedIn;
    await sleep(PAUSE_MILLISECONDS);
  }
}
