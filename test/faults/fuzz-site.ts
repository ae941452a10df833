/** The fuzzed process with a hostile provider, and the checks of every response. */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { userIdOf } from '../../src/gatehouse/users/user-id.ts';
import { generateEncryptionKey } from '../../src/shared/storage/key-ring.ts';
import { createAdministrator } from '../gatehouse/relay/service.ts';
import { csrfTokenOf } from '../gatehouse/sign-in/attempt.ts';
import { createUserAgent, type Page, type UserAgent } from '../support/browserless.ts';
import { createMember, openSharedStorage } from '../support/fleet.ts';
import { type HostileProvider, startHostileProvider } from '../support/hostile-provider.ts';
import { freePort } from '../support/ports.ts';
import { until } from '../support/until.ts';
import { alarmsIn } from './alarms.ts';
import type { Credentials, HostileRequest } from './fuzz-requests.ts';

export interface FuzzSite {
  url: string;
  provider: HostileProvider;
  /** Returns the credentials of an administrator. Signs in again if the session has ended. */
  credentials(): Promise<Credentials>;
  /** Makes the fuzzer's access token for this app expire, if there is one. */
  expire(appId: string): Promise<void>;
  /** Tries a sign-in in a new browser, whatever the result. */
  signIn(appId: string): Promise<{ agent: UserAgent; page: Page }>;
  /** Returns alarms: the process has ended, or has printed lines that it must never print. */
  alarms(): string[];
  close(): Promise<void>;
}

const PERSON = { sub: 'fuzzer', name: 'Fuzzer', groups: ['gatehouse-admins'] };
/** The app of administrators. Its provider behaves correctly while requests are tested. */
export const HOME_APP = 'elsewhere';

/** @param appIds further apps of the same provider, which have not called it yet */
export async function startFuzzSite(appIds: readonly string[]): Promise<FuzzSite> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const directory = mkdtempSync(join(tmpdir(), 'gatehouse-fuzz-'));
  const provider = await startHostileProvider({ person: PERSON });
  const appsFile = join(directory, 'connected-apps.json');
  writeFileSync(appsFile, JSON.stringify([HOME_APP, ...appIds].map((id) => provider.app(url, { id }))));
  const env: Record<string, string> = {
    PUBLIC_URL: url,
    PORT: String(port),
    MANAGEMENT_PORT: String(await freePort()),
    DATA_DIR: join(directory, 'data'),
    SESSION_SECRETS: randomBytes(48).toString('base64'),
    ENCRYPTION_KEYS: generateEncryptionKey(new Date()),
    CONNECTED_APPS_FILE: appsFile,
    ADMIN_APP: HOME_APP,
    ADMIN_VALUES: 'gatehouse-admins',
    INTERNAL_HOSTS: '127.0.0.1',
    HOSTILE_CLIENT_SECRET: provider.clientSecret,
    // Warnings must include a stack.
    NODE_OPTIONS: '--trace-warnings',
    RATE_LIMIT_PER_ADDRESS_PER_MINUTE: '0',
    RATE_LIMIT_PER_SESSION_PER_MINUTE: '0',
    RATE_LIMIT_PER_RELAY_TOKEN_PER_MINUTE: '0',
    RATE_LIMIT_SIGN_INS_PER_ADDRESS_PER_MINUTE: '0',
  };
  const member = createMember(env, []);
  await member.start();
  const { program } = member;
  const storage = await openSharedStorage(env);
  const administrator = await createAdministrator({ url }, storage);
  const { token: relayToken } = await administrator.createRelayToken({ assertUser: true, apps: [HOME_APP] });
  const adminToken = await administrator.call('POST', '/admin-tokens', {
    name: 'fuzz',
    scope: 'read',
    expiresAt: new Date(Date.now() + 36_000_000).toISOString(),
  });
  let agent = createUserAgent();
  let csrfToken = '';

  const signIn: FuzzSite['signIn'] = async (appId) => {
    const newAgent = createUserAgent();
    return { agent: newAgent, page: await newAgent.get(`${url}/sign-in?app=${appId}`) };
  };
  return {
    url,
    provider,
    signIn,
    async credentials() {
      if ((await csrfTokenOf({ url }, agent)) !== csrfToken) {
        // A sign-in is refused while the process is busy. Without a token the bodies of forms would be shorter than they say.
        await until(async () => {
          ({ agent } = await signIn(HOME_APP));
          csrfToken = await csrfTokenOf({ url }, agent);
          return csrfToken !== 'undefined';
        });
      }
      const { host } = new URL(url);
      const cookie = agent.cookies.header(url);
      return { host, cookie, csrfToken, relayToken, adminToken: String(adminToken.json.token) };
    },
    async expire(appId) {
      const stored = await storage.grants.loadStored(userIdOf(provider.issuer, PERSON.sub), appId);
      if (!stored || 'unreadable' in stored) return;
      await storage.grants.save({ ...stored.grant, expiresAt: Date.now() - 1_000 }, stored.version);
    },
    alarms() {
      const ended = member.isRunning() ? [] : ['the process has ended'];
      return [...ended, ...alarmsIn(program.stdout() + program.stderr())];
    },
    async close() {
      await member.kill();
      await storage.store.close();
      await provider.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** After this time without a response, an incomplete request is ended. */
const QUIET_MILLISECONDS = 100;
const DEADLINE_MILLISECONDS = 20_000;

export interface ProvokedResponse {
  /** The status of the first response; 0 if there was none. */
  status: number;
  /** The fault of the response, if it has one. */
  fault: string | undefined;
}

export function provoke(url: string, { bytes, isWhole }: HostileRequest): Promise<ProvokedResponse> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    let text = '';
    const socket = connect(Number(port), hostname, () => socket.write(bytes));
    const end = (isInTime: boolean) => {
      for (const timer of [quiet, deadline]) clearTimeout(timer);
      socket.destroy();
      const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(text)?.[1] ?? 0);
      resolve({ status, fault: isInTime ? faultOf(text, status, isWhole) : 'no response and not closed in time' });
    };
    const quiet = isWhole ? undefined : setTimeout(() => socket.end(), QUIET_MILLISECONDS);
    const deadline = setTimeout(() => end(false), DEADLINE_MILLISECONDS);
    socket.setEncoding('latin1').on('data', (chunk: string) => {
      text += chunk;
    });
    socket.on('error', () => undefined);
    socket.on('close', () => end(true));
  });
}

function faultOf(text: string, status: number, isWhole: boolean): string | undefined {
  if (text === '') return isWhole ? 'closed without a response' : undefined;
  if (status === 0) return 'the response is not HTTP';
  return /^HTTP\/1\.1 500 /m.test(text) ? '500' : undefined;
}
