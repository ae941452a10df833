/**
 * Signs in through a Gatehouse that runs as in production. `npm run image-test -- IMAGE` starts a container of the image,
 * without capabilities and with a read-only root; without IMAGE, it starts `node src/server.ts`. Exits with 0 if the
 * user's thread is read and Gatehouse stops cleanly.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createBinService } from '../../src/bin-lookup-service/service.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { generateEncryptionKey } from '../../src/shared/storage/key-ring.ts';
import { getJson, sandboxApp, signIn } from '../support/gatehouse.ts';
import { freePort } from '../support/ports.ts';
import { until } from '../support/until.ts';

const [image] = process.argv.slice(2);
const [port, managementPort] = [await freePort(), await freePort()];
const url = `http://127.0.0.1:${port}`;
const directory = mkdtempSync(join(tmpdir(), 'gatehouse-production-'));
const clientSecret = randomBytes(32).toString('base64url');
const sandbox = await startSandbox({
  clients: [
    {
      clientId: 'test-platform',
      clientSecret,
      name: 'Test platform',
      redirectUris: [`${url}/oauth/callback/platform`],
      settings: { requirePkce: true },
    },
  ],
  binService: createBinService(),
});
const gatehouse = start(writeSettings(sandbox));
try {
  await until(async () => {
    if (gatehouse.exitCode !== null) throw new Error(`It ended with ${gatehouse.exitCode} before it was ready.`);
    const ready = await fetch(`http://127.0.0.1:${managementPort}/readyz`).catch(() => undefined);
    return ready?.ok === true;
  });
  const { agent } = await signIn({ url });
  const { status, json } = await getJson(agent, `${url}/threads/current`);
  if (status !== 200) throw new Error(`/threads/current responds with ${status}: ${json.code}`);
  const ended = once(gatehouse, 'exit');
  gatehouse.kill('SIGTERM');
  const [exitStatus] = await ended;
  if (exitStatus !== 0) throw new Error(`It stopped with ${exitStatus}.`);
  process.stdout.write(`Signed in, read the thread, and stopped cleanly: ${image ?? 'node src/server.ts'}\n`);
} finally {
  gatehouse.kill('SIGKILL');
  await sandbox.close();
  rmSync(directory, { recursive: true, force: true });
}

/** Writes the settings that a container gets, in files that its user can read. */
function writeSettings(provider: Sandbox): Record<string, string> {
  const files = {
    'session-secrets': randomBytes(48).toString('base64'),
    'encryption-keys': generateEncryptionKey(new Date()),
    'client-secret': clientSecret,
    'connected-apps.json': JSON.stringify([
      sandboxApp({ url, sandbox: provider }, 'platform', { clientSecret: { file: join(directory, 'client-secret') } }),
    ]),
  };
  chmodSync(directory, 0o755);
  for (const [name, text] of Object.entries(files)) writeFileSync(join(directory, name), text, { mode: 0o644 });
  return {
    PUBLIC_URL: url,
    HOST: '127.0.0.1',
    MANAGEMENT_HOST: '127.0.0.1',
    PORT: String(port),
    MANAGEMENT_PORT: String(managementPort),
    SESSION_SECRETS_FILE: join(directory, 'session-secrets'),
    ENCRYPTION_KEYS_FILE: join(directory, 'encryption-keys'),
    CONNECTED_APPS_FILE: join(directory, 'connected-apps.json'),
    INTERNAL_HOSTS: '127.0.0.1',
  };
}

function start(settings: Record<string, string>): ChildProcess {
  const stdio = ['ignore', 'inherit', 'inherit'] as const;
  if (image === undefined) {
    mkdirSync(join(directory, 'data'), { mode: 0o700 });
    const env = {
      PATH: process.env.PATH ?? '',
      NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? '',
      NODE_ENV: 'production',
      DATA_DIR: join(directory, 'data'),
      ...settings,
    };
    return spawn('node', ['src/server.ts'], { env, stdio: [...stdio] });
  }
  // The data is in the anonymous volume of the image, which --rm removes. The host network reaches the sandbox, which
  // listens on loopback.
  const run = ['run', '--rm', '--init=false', '--network', 'host', '--read-only', '--cap-drop', 'ALL'];
  const limits = ['--security-opt', 'no-new-privileges', '--user', '1000:1000', '--ulimit', 'core=0'];
  const environment = Object.entries(settings).flatMap(([name, value]) => ['--env', `${name}=${value}`]);
  const volume = ['--volume', `${directory}:${directory}:ro`];
  return spawn('docker', [...run, ...limits, ...environment, ...volume, image], { stdio: [...stdio] });
}
