/** Starts the shipped Gatehouse for a test, with real listeners, storage in a temporary folder, and the sandbox. */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { createBinService } from '../../src/bin-lookup-service/service.ts';
import { type RunningGatehouse, startGatehouse } from '../../src/gatehouse/start.ts';
import { type Sandbox, type SandboxOptions, startSandbox } from '../../src/sandbox/sandbox.ts';
import { generateKeys } from '../../src/sandbox/signing-keys.ts';
import type { EventLoopMonitor } from '../../src/shared/http/limits.ts';
import { containsCardNumber } from '../../src/shared/observability/card-numbers.ts';
import { once } from '../../src/shared/once.ts';
import { connectedAppSchema } from '../../src/shared/provider/connected-app.ts';
import { generateEncryptionKey } from '../../src/shared/storage/key-ring.ts';
import { createUserAgent, type Page, type UserAgent } from './browserless.ts';
import { watchedLog, watchSecrets } from './log-watch.ts';
import { freePort } from './ports.ts';

export const PASSWORD = 'gatehouse-demo';
export const CLIENT_SECRET = 'test-client-secret-0123456789';

/** Shared by all sandboxes of this process, because generating keys takes longer than the rest of a sandbox's start. */
export const signingKeys = once(generateKeys);

export interface TestGatehouse {
  url: string;
  managementUrl: string;
  dataDirectory: string;
  env: Record<string, string>;
  /** All log lines so far. */
  logs(): string[];
  /** Stops it and starts it again on the same data, settings and ports. */
  restart(): Promise<void>;
  /** Reloads the settings as SIGHUP does. */
  reload(): Promise<void>;
  close(): Promise<void>;
}

export interface TestSite extends TestGatehouse {
  sandbox: Sandbox;
}

export interface SiteOptions {
  env?: Record<string, string>;
  /** Changes of the default connected app `platform`. */
  app?: Record<string, unknown>;
  /** Replaces the default app. */
  apps?: (urls: { url: string; sandbox: Sandbox }) => Record<string, unknown>[];
  sandbox?: Partial<SandboxOptions>;
}

/** Starts the sandbox, and Gatehouse with an app of the sandbox. */
export async function startSite(options: SiteOptions = {}): Promise<TestSite> {
  const port = await freePort();
  const url = options.env?.PUBLIC_URL ?? `http://127.0.0.1:${port}`;
  const sandbox = await startSandbox({
    clients: ['platform', 'second'].map((id) => ({
      clientId: `test-${id}`,
      clientSecret: CLIENT_SECRET,
      name: `Test ${id}`,
      redirectUris: [`${url}/oauth/callback/${id}`],
      postLogoutRedirectUris: [`${url}/`],
      settings: { requirePkce: true },
    })),
    binService: createBinService(),
    signingKeys: await signingKeys(),
    ...options.sandbox,
  });
  const apps = options.apps?.({ url, sandbox }) ?? [sandboxApp({ url, sandbox }, 'platform', options.app)];
  try {
    const gatehouse = await startWithoutSandbox({
      port,
      apps,
      env: { PUBLIC_URL: url, BIN_SERVICE_URL: sandbox.binServiceUrl, ...options.env },
    });
    const close = async () => {
      await gatehouse.close();
      await sandbox.close();
    };
    return { ...gatehouse, sandbox, close };
  } catch (error) {
    await sandbox.close();
    throw error;
  }
}

/** The members of a registration that have a default, which a change by API must name. */
export const APP_DEFAULTS = Object.fromEntries(
  Object.entries(connectedAppSchema.shape).flatMap(([name, schema]) =>
    schema instanceof z.ZodDefault ? [[name, schema.parse(undefined)]] : [],
  ),
);

/** Returns the entry of a connected app of the sandbox. */
export function sandboxApp(
  { url, sandbox }: { url: string; sandbox: Sandbox },
  id: 'platform' | 'second',
  changes: Record<string, unknown> = {},
): Record<string, unknown> {
  return {
    ...APP_DEFAULTS,
    id,
    name: `Collaboration ${id}`,
    issuer: sandbox.issuer,
    clientId: `test-${id}`,
    clientSecret: { env: 'TEST_CLIENT_SECRET' },
    scopes: ['openid', 'profile', 'email', 'offline_access', 'platform_read_only'],
    callbackUrls: [`${url}/oauth/callback/${changes.id ?? id}`],
    apiBaseUrl: sandbox.platformUrl,
    signIn: { allow: 'everyone' },
    ...changes,
  };
}

/** Callers and providers share the event loop with Gatehouse here, so a late event loop must not cause refusals. */
const NEVER_BUSY: EventLoopMonitor = { isBusy: () => false, stop: () => undefined };

/** Starts Gatehouse with these apps, without a sandbox. */
export async function startWithoutSandbox(options: {
  port?: number;
  apps: Record<string, unknown>[];
  env?: Record<string, string>;
  eventLoopMonitor?: EventLoopMonitor;
}): Promise<TestGatehouse> {
  const port = options.port ?? (await freePort());
  const managementPort = await freePort();
  const directory = mkdtempSync(join(tmpdir(), 'gatehouse-test-'));
  const appsFile = join(directory, 'connected-apps.json');
  writeFileSync(appsFile, JSON.stringify(options.apps));
  const env: Record<string, string> = {
    PUBLIC_URL: `http://127.0.0.1:${port}`,
    PORT: String(port),
    MANAGEMENT_PORT: String(managementPort),
    DATA_DIR: join(directory, 'data'),
    SESSION_SECRETS: randomBytes(48).toString('base64'),
    ENCRYPTION_KEYS: generateEncryptionKey(new Date()),
    CONNECTED_APPS_FILE: appsFile,
    ADMIN_VALUES: 'gatehouse-admins',
    INTERNAL_HOSTS: '127.0.0.1',
    TEST_CLIENT_SECRET: CLIENT_SECRET,
    SHUTDOWN_SECONDS: '5',
    // All users of a test sign in from one address, and faster than real users.
    RATE_LIMIT_SIGN_INS_PER_ADDRESS_PER_MINUTE: '0',
    // If a test moves the clock, a check that becomes due would add calls to the provider.
    CONNECTION_CHECK_SECONDS: '0',
    ...options.env,
  };
  const lines: string[] = [];
  const destination = watchedLog(lines);
  watchSecrets(env);
  const start = () => startGatehouse(env, destination, { createMonitor: () => options.eventLoopMonitor ?? NEVER_BUSY });
  let gatehouse: RunningGatehouse = await start();
  return {
    url: gatehouse.config.publicUrl.href,
    managementUrl: `http://127.0.0.1:${managementPort}`,
    dataDirectory: join(directory, 'data'),
    env,
    logs: () => lines,
    async restart() {
      await gatehouse.close();
      gatehouse = await start();
    },
    reload: () => gatehouse.reload(),
    async close() {
      await gatehouse.close();
      rmSync(directory, { recursive: true, force: true });
      // R86, in the whole run: no log contains a card number, whatever a test sends.
      if (lines.some(containsCardNumber)) throw new Error('R86: the log contains a card number.');
    },
  };
}

/** Signs in through the sandbox's forms. Returns the last page, and the user agent with the session. */
export async function signIn(
  site: { url: string },
  login = 'user@example.test',
  options: { agent?: UserAgent; path?: string } = {},
): Promise<{ agent: UserAgent; page: Page }> {
  const agent = options.agent ?? createUserAgent();
  let page = await agent.get(`${site.url}${options.path ?? '/sign-in'}`);
  if (page.forms.some((form) => form.names.includes('password')))
    page = await agent.submit(page, { login, password: PASSWORD });
  while (page.forms.some((form) => form.buttons.some(({ text }) => text === 'Allow')))
    page = await agent.submit(page, {}, { button: 'Allow' });
  return { agent, page };
}

export const JSON_ONLY = { headers: { accept: 'application/json' } };

/** GETs JSON with the agent's cookies. */
export async function getJson(
  agent: UserAgent,
  url: string,
): Promise<{ status: number; json: Record<string, unknown>; headers: Headers }> {
  const page = await agent.get(url, JSON_ONLY);
  return { status: page.status, json: JSON.parse(page.body), headers: page.headers };
}
