/** Starts the BIN lookup service, in this process or in another, optionally with the sandbox as its provider. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Agent, request } from 'undici';
import { type RunningBinService, startBinService } from '../../src/bin-lookup-service/start.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { CLIENT_SECRET, signingKeys } from '../support/gatehouse.ts';
import { watchedLog } from '../support/log-watch.ts';
import { freePort } from '../support/ports.ts';
import { startProgram } from '../support/program.ts';

export interface BinSite {
  url: string;
  managementUrl: string;
  env: Record<string, string>;
  logs(): string[];
  close(): Promise<void>;
}

export function temporaryFolder(): { path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), 'gatehouse-bin-lookup-service-'));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

export async function settingsFor(env: Record<string, string> = {}): Promise<Record<string, string>> {
  const [port, managementPort] = [await freePort(), await freePort()];
  return { PORT: String(port), MANAGEMENT_PORT: String(managementPort), SHUTDOWN_SECONDS: '5', ...env };
}

/** Starts the service in this process. Default for `DATA_DIR`: a temporary folder. */
export async function startBinSite(settings: Record<string, string> = {}): Promise<BinSite> {
  const folder = temporaryFolder();
  const env = await settingsFor({ DATA_DIR: folder.path, ...settings });
  const lines: string[] = [];
  const service: RunningBinService = await startBinService(env, watchedLog(lines));
  return {
    url: service.settings.publicUrl.href,
    managementUrl: `http://127.0.0.1:${env.MANAGEMENT_PORT}`,
    env,
    logs: () => lines,
    async close() {
      await service.close();
      folder.remove();
    },
  };
}

/** Starts the service with accounts: users sign in at a sandbox that this call starts. */
export async function startBinSiteWithAccounts(
  settings: Record<string, string> = {},
): Promise<BinSite & { sandbox: Sandbox }> {
  const port = await freePort();
  const url = settings.PUBLIC_URL ?? `http://127.0.0.1:${port}`;
  const sandbox = await startSandbox({
    clients: [
      { clientId: 'bin-lookup-service', clientSecret: CLIENT_SECRET, redirectUris: [`${url}/account/callback`] },
    ],
    binService: (_req, res) => void res.end(),
    signingKeys: await signingKeys(),
  });
  const site = await startBinSite({
    PORT: String(port),
    SIGN_IN_ISSUER: sandbox.issuer,
    SIGN_IN_NAME: 'Sandbox',
    SIGN_IN_CLIENT_ID: 'bin-lookup-service',
    SIGN_IN_CLIENT_SECRET: CLIENT_SECRET,
    INTERNAL_HOSTS: '127.0.0.1',
    ...settings,
  });
  const close = async () => {
    await site.close();
    await sandbox.close();
  };
  return { ...site, sandbox, close };
}

/** Starts the service as a separate process, and waits until it is ready. */
export async function startBinProcess(env: Record<string, string>) {
  const program = startProgram(['node', 'src/bin-lookup-service.ts'], env);
  await program.printed('is ready at');
  return { program, url: `http://127.0.0.1:${env.PORT}` };
}

/** Runs an operator command, and returns its status and output. */
export async function command(
  env: Record<string, string>,
  ...args: string[]
): Promise<{ status: number | null; out: string; err: string }> {
  const program = startProgram(['node', 'src/bin-lookup-service.ts', ...args], env);
  const { status } = await program.ended;
  return { status, out: program.stdout(), err: program.stderr() };
}

/** Sends `count` requests over keep-alive connections, and returns the number of responses with each status. */
export async function statuses(
  url: string,
  count: number,
  options: { connections?: number; headers?: Record<string, string> } = {},
): Promise<Record<number, number>> {
  const { connections = 16, headers = {} } = options;
  const dispatcher = new Agent({ connections, pipelining: 1 });
  const counts: Record<number, number> = {};
  let remaining = count;
  const work = async () => {
    while (remaining > 0) {
      remaining -= 1;
      const response = await request(url, { dispatcher, headers }).catch(() => undefined);
      await response?.body.dump();
      const status = response?.statusCode ?? 0;
      counts[status] = (counts[status] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: connections }, work));
  await dispatcher.close();
  return counts;
}
