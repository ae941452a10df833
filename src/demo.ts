/** Owns `npm run demo`: the sandbox, and Gatehouse pointed at it, with nothing to set up and nothing kept. */
import { randomBytes } from 'node:crypto';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import { join } from 'node:path';
import { destination } from 'pino';
import { openBinService, readBinServiceSettings } from './bin-service/start.ts';
import { type Sandbox, startSandbox } from './sandbox/sandbox.ts';
import { stopOnSignals } from './signals.ts';
import { type Environment, type Gatehouse, startGatehouse } from './start.ts';
import { StartRefused } from './start-refused.ts';
import { generateEncryptionKey } from './storage/key-ring.ts';

const CLIENT_ID = 'gatehouse-demo';
const APP_ID = 'platform';
const BIN_CLIENT_ID = 'bin-service-demo';

const port = process.env.PORT || '3000';
const publicUrl = (process.env.PUBLIC_URL || `http://127.0.0.1:${port}`).replace(/\/+$/, '');
const sandboxPort = process.env.SANDBOX_PORT || '3001';
// Whoever holds the port owns the folder: a second demo beside this one has another.
const directory = join(process.env.DATA_DIR || './data', `demo-${sandboxPort}`);
const clientSecret = randomBytes(24).toString('base64url');
const binClientSecret = randomBytes(24).toString('base64url');
const logs = destination({ fd: 1, sync: false });

let sandbox: Sandbox | undefined;
let gatehouse: Gatehouse | undefined;
let binService: Awaited<ReturnType<typeof openBinService>> | undefined;
const close = async () => {
  await gatehouse?.close();
  await binService?.close();
  if (sandbox) rmSync(directory, { recursive: true, force: true });
  await sandbox?.close();
};

try {
  sandbox = await startSandbox({
    port: Number(sandboxPort),
    clients: [
      {
        clientId: CLIENT_ID,
        clientSecret,
        name: 'Gatehouse demo',
        redirectUris: [`${publicUrl}/oauth/callback/${APP_ID}`],
        postLogoutRedirectUris: [`${publicUrl}/`],
      },
      {
        clientId: BIN_CLIENT_ID,
        clientSecret: binClientSecret,
        name: 'BIN look-up',
        redirectUris: [`http://127.0.0.1:${Number(sandboxPort) + 2}/account/callback`],
      },
    ],
    // It has no place to keep its counts before the ports are held.
    binService: ((req, res) => (binService ? binService.listener(req, res) : res.destroy())) satisfies RequestListener,
  });
  const settings = environment(sandbox);
  binService = await openBinService({ settings: binServiceSettings(sandbox), logDestination: logs });
  gatehouse = await startGatehouse(settings, logs);
  stopOnSignals(close);
  process.stdout.write(greeting(sandbox, gatehouse));
} catch (error) {
  await close();
  const faults =
    error instanceof StartRefused ? error.faults : [error instanceof Error ? error.message : 'unknown failure'];
  process.stderr.write(`The demo cannot start:\n${faults.map((fault) => `- ${fault}`).join('\n')}\n`);
  process.exit(1);
}

/** What a newcomer would otherwise have to set; what is set already counts. */
function environment({ issuer, platformUrl, binServiceUrl }: Sandbox): Environment {
  // The sandbox forgets everyone when it stops, so grants of an earlier demo could only fail.
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  const appsFile = join(directory, 'connected-apps.json');
  writeFileSync(appsFile, JSON.stringify([connectedApp(issuer, platformUrl)], null, 2), { mode: 0o600 });
  return {
    INTERNAL_HOSTS: '127.0.0.1',
    BIN_SERVICE_URL: binServiceUrl,
    LOG_LEVEL: 'warn',
    ...process.env,
    PUBLIC_URL: publicUrl,
    DATA_DIR: directory,
    SESSION_SECRETS: randomBytes(48).toString('base64'),
    ENCRYPTION_KEYS: generateEncryptionKey(new Date()),
    CONNECTED_APPS_FILE: appsFile,
    DEMO_CLIENT_SECRET: clientSecret,
  };
}

function binServiceSettings({ issuer, binServiceUrl }: Sandbox) {
  return readBinServiceSettings({
    PUBLIC_URL: binServiceUrl,
    DATA_DIR: join(directory, 'bin-service'),
    SIGN_IN_ISSUER: issuer,
    SIGN_IN_NAME: 'the sandbox',
    SIGN_IN_CLIENT_ID: BIN_CLIENT_ID,
    SIGN_IN_CLIENT_SECRET: binClientSecret,
    INTERNAL_HOSTS: '127.0.0.1',
    LOG_LEVEL: process.env.LOG_LEVEL || 'warn',
  });
}

function connectedApp(issuer: string, platformUrl: string) {
  return {
    id: APP_ID,
    name: 'Collaboration platform',
    issuer,
    clientId: CLIENT_ID,
    clientSecret: { env: 'DEMO_CLIENT_SECRET' },
    scopes: ['openid', 'profile', 'email', 'offline_access', 'platform_read_only'],
    callbackUrls: [`${publicUrl}/oauth/callback/${APP_ID}`],
    apiBaseUrl: platformUrl,
    signIn: { allow: 'everyone' },
  };
}

function greeting({ accounts, issuer, binServiceUrl }: Sandbox, { config }: Gatehouse): string {
  const width = Math.max(...accounts.map(({ login }) => login.length));
  const people = accounts.map(
    ({ login, name, groups }) => `  ${login.padEnd(width)}  ${name}${groups.length > 0 ? ' (administrator)' : ''}`,
  );
  return `
Gatehouse is ready at ${config.publicUrl.href}

Sign in there as one of these, each with the password ${accounts[0]?.password}:
${people.join('\n')}

Try this:
  - read the current thread, then look up the BIN 45717360
  - wait a minute: the access token runs out, and the thread still comes
  - disconnect the platform under Connections, and connect it again

Behind it: identity provider ${issuer} (its first page shows a code where a second factor is asked for),
BIN lookup service ${binServiceUrl} (accounts: ${binServiceUrl}/account),
health and metrics http://${config.management.host}:${config.management.port}/metrics
Everything is gone when it stops: Ctrl+C.
`;
}
