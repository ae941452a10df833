/** A provider and a trace collector whose certificates a private authority signed, with and without CA_FILE. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { loadBinServiceSettings } from '../../../src/bin-lookup-service/settings.ts';
import { withNewStorage } from '../../../src/gatehouse/commands/open-storage.ts';
import { loadConfig } from '../../../src/shared/config/config.ts';
import { generateEncryptionKey } from '../../../src/shared/storage/key-ring.ts';
import { createAuthority } from '../../support/authority.ts';
import { freePort } from '../../support/ports.ts';
import { runCommandProcess, startProgram } from '../../support/program.ts';
import { sendRequest } from '../../support/send-request.ts';

let folder: string;
let authority: ReturnType<typeof createAuthority>;
let server: Server;
let origin: string;
let env: Record<string, string>;
const traces: string[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'gatehouse-authority-site-'));
  authority = createAuthority();
  const { cert, key } = authority.sign('localhost');
  server = createServer({ cert: readFileSync(cert), key: readFileSync(key) }, (req, res) => {
    res.setHeader('content-type', 'application/json');
    if (req.url === '/v1/traces') traces.push(String(req.headers['content-type']));
    res.end(req.url === '/keys' ? '{"keys":[]}' : JSON.stringify(metadata(origin)));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  origin = `https://localhost:${(server.address() as AddressInfo).port}`;
  const app = {
    id: 'company',
    name: 'Company',
    issuer: origin,
    clientId: 'c',
    clientSecret: { env: 'COMPANY_SECRET' },
    scopes: ['openid'],
    signIn: { allow: 'everyone' },
  };
  const apps = join(folder, 'apps.json');
  writeFileSync(apps, JSON.stringify([{ ...app, callbackUrls: ['http://127.0.0.1:3000/oauth/callback/company'] }]));
  env = {
    PUBLIC_URL: 'http://127.0.0.1:3000',
    SESSION_SECRETS: 'q8Zr1vT6yLw3Xn5Kd7Pm9Bc2Hf4Jg0Sa',
    ENCRYPTION_KEYS: generateEncryptionKey(new Date()),
    DATA_DIR: join(folder, 'data'),
    CONNECTED_APPS_FILE: apps,
    INTERNAL_HOSTS: 'localhost',
    COMPANY_SECRET: 'a-client-secret-of-a-test',
  };
  await withNewStorage({ env, readFile: (path) => readFileSync(path, 'utf8') }, async () => undefined);
});
afterAll(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  authority.dispose();
  rmSync(folder, { recursive: true, force: true });
});

const metadata = (issuer: string) => ({
  issuer,
  authorization_endpoint: `${issuer}/authorize`,
  token_endpoint: `${issuer}/token`,
  jwks_uri: `${issuer}/keys`,
  response_types_supported: ['code'],
  subject_types_supported: ['public'],
  id_token_signing_alg_values_supported: ['RS256'],
});

test('the doctor suggests CA_FILE, and reads the metadata of the provider once it is set', async () => {
  const without = await runCommandProcess(['doctor', '--json'], env);
  expect(without.stdout).toMatch(
    /signed by an unknown authority \(UNABLE_TO_VERIFY_LEAF_SIGNATURE\).*set CA_FILE to a PEM file/,
  );

  const withFile = await runCommandProcess(['doctor', '--json'], { ...env, CA_FILE: authority.file });
  expect(withFile.stdout).toContain(`"app":"company"`);
  expect(withFile.stdout).not.toContain('unknown authority');
  expect(withFile.stdout).not.toMatch(/cannot be read/);
});

test('spans reach a collector whose authority is in CA_FILE', async () => {
  const [port, managementPort] = [await freePort(), await freePort()];
  const ports = { PORT: String(port), MANAGEMENT_PORT: String(managementPort) };
  const tracing = { OTEL_EXPORTER_OTLP_ENDPOINT: origin, CA_FILE: authority.file };
  const program = startProgram(['node', 'src/server.ts'], { ...env, ...ports, ...tracing });
  await program.printed('Gatehouse is ready');
  await sendRequest(`http://127.0.0.1:${port}/session`);
  program.signal('SIGTERM');
  await program.ended;
  expect(traces).toContain('application/json');
});

describe('an invalid file is refused in one sentence', () => {
  const read = (files: Record<string, string>) => (path: string) => {
    const text = files[path];
    if (text === undefined) throw new Error('no such file');
    return text;
  };
  const pem = () => readFileSync(authority.file, 'utf8');
  const keyOf = (name: string) => readFileSync(join(authority.folder, name), 'utf8');

  test.each<[string, () => string | undefined, RegExp]>([
    ['none', () => undefined, /^CA_FILE names a file that cannot be read: check the path and its permissions\.$/],
    ['an empty one', () => '', /^CA_FILE names a file without a certificate in PEM form/],
    ['a key', () => keyOf('ca.key'), /^CA_FILE names a file without a certificate in PEM form/],
    ['a damaged one', () => pem() + pem().replace(/MII\w/, 'AAAA'), /certificate number 2 cannot be read\.$/],
  ])('%s', (_description, text, message) => {
    const content = text();
    const readFile = read(content === undefined ? {} : { 'ca.pem': content });
    const expected = [expect.stringMatching(message)];
    expect(loadConfig({ env: { ...env, CA_FILE: 'ca.pem' }, readFile }).faults).toEqual(expected);
    expect(loadBinServiceSettings({ env: { CA_FILE: 'ca.pem' }, readFile }).faults).toEqual(expected);
  });

  test.each<[Record<string, string>, RegExp]>([
    [{ REDIS_CERT_FILE: 'own.pem' }, /^REDIS_CERT_FILE and REDIS_KEY_FILE belong together/],
    [{ REDIS_CERT_FILE: 'own.pem', REDIS_KEY_FILE: 'ca.key' }, /^REDIS_KEY_FILE is not the key of the certificate/],
    [{ REDIS_CERT_FILE: 'own.pem', REDIS_KEY_FILE: 'own.pem' }, /^REDIS_KEY_FILE names a file without a private key/],
    [{ REDIS_SENTINEL_PASSWORD: 'kept' }, /^REDIS_SENTINEL_USERNAME and REDIS_SENTINEL_PASSWORD are for/],
    [
      { REDIS_SENTINELS: 'a', REDIS_SENTINEL_NAME: 'main', REDIS_SENTINEL_USERNAME: 'u', REDIS_URL: '' },
      /^REDIS_SENTINEL_USERNAME needs REDIS_SENTINEL_PASSWORD/,
    ],
  ])('%j', (settings, message) => {
    const files = { 'own.pem': keyOf('localhost.pem'), 'own.key': keyOf('localhost.key'), 'ca.key': keyOf('ca.key') };
    const redis = { ...env, CONNECTED_APPS_FILE: undefined, REDIS_URL: 'rediss://redis.example.com', ...settings };
    const sentinelsOnly =
      'REDIS_SENTINEL_PASSWORD' in settings || 'REDIS_SENTINELS' in settings ? { REDIS_URL: undefined } : {};
    const { faults } = loadConfig({ env: { ...redis, ...sentinelsOnly }, readFile: read(files) });
    expect(faults).toEqual([expect.stringMatching(message)]);
  });
});
