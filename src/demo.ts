/** Runs `npm run demo`: the sandbox and a Gatehouse that uses it, without any set-up, deleted when it stops. */
import { randomBytes } from 'node:crypto';
import { mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createAdminToken } from './commands/admin-token.ts';
import { withStorage } from './commands/open-storage.ts';
import { demoApps } from './demo-apps.ts';
import { demoScreen } from './demo-screen.ts';
import { StartRefused } from './errors.ts';
import { stopOnSignals } from './http/signals.ts';
import { openLogSink } from './observability/log-sink.ts';
import { createOwnBinService } from './sandbox/own-bin-service.ts';
import { type Sandbox, startSandbox } from './sandbox/sandbox.ts';
import { type Environment, type RunningGatehouse, startGatehouse } from './start.ts';
import { generateEncryptionKey } from './storage/key-ring.ts';
import { userIdOf } from './users/user-id.ts';

const SERVICE_USER = 'user@example.test';

// No other variable is read: the settings of a real Gatehouse in the same shell would give the demo real storage.
const { PORT, MANAGEMENT_PORT, SANDBOX_PORT, LOG_LEVEL, NODE_ENV } = process.env;
const port = PORT || '3000';
const sandboxPort = SANDBOX_PORT || '3001';
const publicUrl = `http://127.0.0.1:${port}`;
// Only one demo can listen on the port, so no other uses this folder.
const directory = join('data', `demo-${sandboxPort}`);
const logFile = join(directory, 'demo.log');
const apps = demoApps(publicUrl);
const binService = createOwnBinService({ port: Number(sandboxPort) });

let sandbox: Sandbox | undefined;
let gatehouse: RunningGatehouse | undefined;
const close = async () => {
  await gatehouse?.close();
  await binService.close();
  if (sandbox) rmSync(directory, { recursive: true, force: true });
  await sandbox?.close();
};

stopOnSignals(close);
try {
  if (NODE_ENV === 'production') {
    throw new StartRefused([
      'NODE_ENV is production: the demo has accounts with a known password. Run npm start, or unset NODE_ENV.',
    ]);
  }
  sandbox = await startSandbox({
    port: Number(sandboxPort),
    clients: [...apps.clients, binService.client],
    binService: binService.listener,
  });
  const settings = prepare(sandbox);
  const logs = openLogSink(openSync(logFile, 'a', 0o600));
  await binService.open(sandbox, {
    directory: join(directory, 'bin-service'),
    logLevel: LOG_LEVEL,
    logDestination: logs,
  });
  const source = { env: settings, readFile: (path: string) => readFileSync(path, 'utf8') };
  const tokenOptions = { name: 'demo start', scope: 'write', days: 1 } as const;
  const adminToken = await withStorage(source, (storage) => createAdminToken(storage, tokenOptions));
  gatehouse = await startGatehouse(settings, logs);
  const userId = userIdOf(sandbox.issuer, sandbox.accounts.find(({ login }) => login === SERVICE_USER)?.id ?? '');
  const relayToken = await apps.setUp({ sandbox, adminToken, userId });
  const { host, port: managementPort } = gatehouse.config.management;
  const managementUrl = `http://${host}:${managementPort}`;
  process.stdout.write(
    demoScreen({
      publicUrl,
      managementUrl,
      sandbox,
      logFile,
      app: apps.edited,
      relayToken,
      user: SERVICE_USER,
      userId,
    }),
  );
} catch (error) {
  await close();
  const faults =
    error instanceof StartRefused ? error.faults : [error instanceof Error ? error.message : 'unknown failure'];
  process.stderr.write(`The demo cannot start:\n${faults.map((fault) => `- ${fault}`).join('\n')}\n`);
  process.exit(1);
}

/** Creates an empty folder for the demo. @returns the settings of its Gatehouse */
function prepare({ issuer, platformUrl, binServiceUrl }: Sandbox): Environment {
  // The sandbox forgets its accounts when it stops, so the grants of an earlier demo are useless.
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  const appsFile = join(directory, 'connected-apps.json');
  writeFileSync(appsFile, JSON.stringify(apps.ofFile({ issuer, platformUrl }), null, 2), { mode: 0o600 });
  return {
    PORT: port,
    MANAGEMENT_PORT,
    LOG_LEVEL,
    PUBLIC_URL: publicUrl,
    INTERNAL_HOSTS: '127.0.0.1',
    BIN_SERVICE_URL: binServiceUrl,
    DATA_DIR: directory,
    SESSION_SECRETS: randomBytes(48).toString('base64'),
    ENCRYPTION_KEYS: generateEncryptionKey(new Date()),
    CONNECTED_APPS_FILE: appsFile,
    CONNECTION_CHECK_SECONDS: '60',
    ...apps.secrets,
  };
}
