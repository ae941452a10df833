/** Runs `npm run demo`: the sandbox, and a Gatehouse with 30 days of history. Its data is deleted when it stops. */
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { clientOf, demoApps, entryOf } from './demo/apps.ts';
import { checkApps } from './demo/checks.ts';
import { createDemoToken } from './demo/demo-token.ts';
import { readCommandLine, readEnvironment } from './demo/environment.ts';
import { writeHistory } from './demo/history.ts';
import { SEED } from './demo/people.ts';
import { demoScreen } from './demo/screen.ts';
import { createTour, TOUR_PATH } from './demo/tour.ts';
import { withNewStorage } from './gatehouse/commands/open-storage.ts';
import { createAdminToken } from './gatehouse/commands/operator-tokens.ts';
import { type Environment, type RunningGatehouse, startGatehouse } from './gatehouse/start.ts';
import { userIdOf } from './gatehouse/users/user-id.ts';
import { ADMIN_GROUP } from './sandbox/accounts.ts';
import { createOwnBinService } from './sandbox/own-bin-lookup-service.ts';
import { type Sandbox, startSandbox } from './sandbox/sandbox.ts';
import { loadConfig } from './shared/config/config.ts';
import { DEMO_PID, demoFolder, demoSettingsFile } from './shared/config/running-demo.ts';
import { failureText, StartRefused } from './shared/errors.ts';
import { stopOnSignals } from './shared/http/signals.ts';
import { openLogSink } from './shared/observability/log-sink.ts';
import { generateEncryptionKey } from './shared/storage/key-ring.ts';

const SERVICE_USER = 'user@example.test';

readCommandLine(process.argv.slice(2));
const { port, managementPort, sandboxPort, publicUrl, localUrl, isProxied, logLevel } = readOrExit();
// Only one demo can listen on the port, so no other uses this folder.
const directory = demoFolder(sandboxPort);
const logFile = join(directory, 'demo.log');
const apps = demoApps(publicUrl);
const binService = createOwnBinService({ port: Number(sandboxPort) });

let sandbox: Sandbox | undefined;
let gatehouse: RunningGatehouse | undefined;
const close = async () => {
  await gatehouse?.close();
  await binService.close();
  if (sandbox) {
    rmSync(directory, { recursive: true, force: true });
    // Fails unless the folder is empty.
    await rmdir(dirname(directory)).catch(() => undefined);
  }
  await sandbox?.close();
};

stopOnSignals(close);
try {
  const tour = createTour();
  sandbox = await startSandbox({
    port: Number(sandboxPort),
    clients: [...Object.values(apps).map(clientOf), binService.client],
    seed: SEED,
    binService: binService.listener,
    tour: tour.listener,
  });
  const { issuer, accounts } = sandbox;
  const env = prepare(sandbox);
  const source = { env, readFile: (path: string) => readFileSync(path, 'utf8') };
  const logs = openLogSink(openSync(logFile, 'a', 0o600));
  await binService.open(sandbox, {
    directory: join(directory, 'bin-lookup-service'),
    logLevel,
    logDestination: logs,
  });
  const { values: config } = loadConfig(source);
  const past = { sandbox, apps, config, receivers: tour.receivers(issuer), now: Date.now() };
  const { relayToken, adminToken } = await withNewStorage(source, async (storage) => {
    await writeHistory({ ...past, storage });
    await checkApps({ source, config, storage });
    const { text } = await createAdminToken(storage, { name: 'Demo tour', scope: 'read', days: 1 });
    return { relayToken: await createDemoToken(storage), adminToken: text };
  });
  gatehouse = await startGatehouse(env, logs, { tourUrl: issuer + TOUR_PATH });
  const userId = userIdOf(issuer, accounts.find(({ login }) => login === SERVICE_USER)?.id ?? '');
  tour.open({ sandbox, publicUrl, localUrl, apps, userId, relayToken, adminToken });
  const { management } = gatehouse.config;
  process.stdout.write(
    demoScreen({
      publicUrl,
      localUrl: isProxied ? localUrl : undefined,
      managementUrl: `http://${management.host}:${management.port}`,
      sandbox,
      apps,
      tourUrl: issuer + TOUR_PATH,
      logFile,
      relayToken,
      user: SERVICE_USER,
      userId,
      hasOwnSettings: existsSync('.env'),
    }),
  );
} catch (error) {
  await close();
  refuse(error);
}

function readOrExit() {
  try {
    return readEnvironment(process.env);
  } catch (error) {
    return refuse(error);
  }
}

function refuse(error: unknown): never {
  const faults = error instanceof StartRefused ? error.faults : [failureText(error)];
  process.stderr.write(`The demo cannot start:\n${faults.map((fault) => `- ${fault}`).join('\n')}\n`);
  process.exit(1);
}

/** Creates an empty folder for the demo. @returns the settings of its Gatehouse */
function prepare(sandbox: Sandbox): Environment {
  // The sandbox loses its grants when it stops, so the connections of an earlier demo are useless.
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  const appsFile = join(directory, 'connected-apps.json');
  // Only an app from the file can make users administrators.
  const entries = [entryOf(apps.staff, sandbox, 'DEMO_CLIENT_SECRET')];
  writeFileSync(appsFile, JSON.stringify(entries, null, 2), { mode: 0o600 });
  const settings = {
    PUBLIC_URL: publicUrl,
    INTERNAL_HOSTS: '127.0.0.1',
    BIN_SERVICE_URL: sandbox.binServiceUrl,
    DATA_DIR: directory,
    SESSION_SECRETS: randomBytes(48).toString('base64'),
    ENCRYPTION_KEYS: generateEncryptionKey(new Date()),
    CONNECTED_APPS_FILE: appsFile,
    ADMIN_VALUES: ADMIN_GROUP,
    // Frequent enough to be visible, yet a check rarely gets a new token just before the tour ends the connection.
    CONNECTION_CHECK_SECONDS: '600',
    DEMO_CLIENT_SECRET: apps.staff.clientSecret,
    // Some proxies replace the Host header and send the browser's in X-Forwarded-Host.
    ...(isProxied && { TRUSTED_PROXIES: '127.0.0.1' }),
  };
  const lines = Object.entries({ ...settings, [DEMO_PID]: process.pid }).map(([name, value]) => `${name}=${value}\n`);
  writeFileSync(demoSettingsFile(sandboxPort), lines.join(''), { mode: 0o600 });
  return { PORT: port, MANAGEMENT_PORT: managementPort, LOG_LEVEL: logLevel, ...settings };
}
