/** What the benchmark needs around Gatehouse: the sandbox as identity provider, settings, and a signed-in cookie. */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createBinService } from '../../src/bin-service/service.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { generateEncryptionKey } from '../../src/storage/key-ring.ts';
import { CLIENT_SECRET, freePort, sandboxApp, signIn as signInSite } from '../support/gatehouse.ts';

export { freePort };

export function startSandboxFor(url: string): Promise<Sandbox> {
  return startSandbox({
    clients: [
      { clientId: 'test-platform', clientSecret: CLIENT_SECRET, redirectUris: [`${url}/oauth/callback/platform`] },
    ],
    // The benchmark measures relaying; refreshing has tests of its own.
    accessTokenSeconds: 3600,
    binService: createBinService(),
  });
}

export async function writeSettings(parts: { url: string; port: number; sandbox: Sandbox; upstreamUrl: string }) {
  const directory = mkdtempSync(join(tmpdir(), 'gatehouse-bench-'));
  const appsFile = join(directory, 'connected-apps.json');
  writeFileSync(appsFile, JSON.stringify([sandboxApp(parts, 'platform', { apiBaseUrl: parts.upstreamUrl })]));
  return {
    env: {
      PUBLIC_URL: parts.url,
      PORT: String(parts.port),
      MANAGEMENT_PORT: String(await freePort()),
      DATA_DIR: join(directory, 'data'),
      SESSION_SECRETS: randomBytes(48).toString('base64'),
      ENCRYPTION_KEYS: generateEncryptionKey(new Date()),
      CONNECTED_APPS_FILE: appsFile,
      INTERNAL_HOSTS: '127.0.0.1',
      TEST_CLIENT_SECRET: CLIENT_SECRET,
    },
    remove: () => rmSync(directory, { recursive: true, force: true }),
  };
}

/** Answers the `Cookie` header of a browser that has signed in. */
export async function signIn(url: string): Promise<string> {
  const { agent } = await signInSite({ url });
  return agent.cookies.header(url) ?? '';
}
