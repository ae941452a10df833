/** The curl and TypeScript examples of docs/relay.md work unchanged. forward-auth.long.test.ts has those of proxies. */

import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createAdminTokens } from '../../../src/gatehouse/admin-tokens/admin-tokens.ts';
import { signatureOf } from '../../../src/gatehouse/webhooks/delivery.ts';
import { WEBHOOK_EVENTS } from '../../../src/gatehouse/webhooks/webhook-store.ts';
import { newOpaqueTokenId } from '../../../src/shared/storage/opaque-token.ts';
import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { missingCurl, skipIfMissing } from '../../support/missing.ts';
import { ACCEPT_JSON, sendRequest } from '../../support/send-request.ts';
import { openStorageOf, type StorageAccess } from '../grants/storage-access.ts';
import { assertionOf, createAdministrator, relayThread } from './service.ts';

const execute = promisify(execFile);
const documentText = readFileSync(join(import.meta.dirname, '../../../docs/relay.md'), 'utf8');
/** The code blocks of docs/relay.md that begin with these words after the three backticks. */
const blocksOf = (kind: string) =>
  [...documentText.matchAll(new RegExp(`^\`\`\`${kind}\\n([\\s\\S]*?)^\`\`\``, 'gm'))].map(([, block = '']) => block);

let site: TestSite;
let storage: StorageAccess;
let cookie: string;
let relayToken: string;
let relayTokenId: string;
let adminToken: string;
const directory = mkdtempSync(join(tmpdir(), 'gatehouse-examples-'));
beforeAll(async () => {
  site = await startSite({ sandbox: { accessTokenSeconds: 3_600 } });
  storage = await openStorageOf(site);
  const admin = await createAdministrator(site, storage);
  cookie = (await signIn(site)).agent.cookies.header(site.url);
  ({ token: relayToken, id: relayTokenId } = await admin.createRelayToken());
  const { store, sealer } = storage;
  const adminTokens = createAdminTokens({ store, sealedJson: createSealedJson(sealer), clock: Date.now });
  ({ text: adminToken } = await adminTokens.create({
    id: newOpaqueTokenId(),
    name: 'documented',
    scope: 'write',
    expiresAt: Date.now() + 3_600_000,
  }));
});
afterAll(async () => {
  await storage.close();
  await site.close();
  rmSync(directory, { recursive: true, force: true });
});

test('every curl example gets the response that the text describes', async (context) => {
  skipIfMissing(context, missingCurl);
  const env = { ...process.env, GATEHOUSE: site.url, ADMIN_TOKEN: adminToken, RELAY_TOKEN: relayToken };
  const responses = await Promise.all(
    blocksOf('sh curl').map(async (block) => {
      const { stdout } = await execute('sh', ['-c', block], {
        env: { ...env, ASSERTION: await assertionOf(site, cookie) },
      });
      return JSON.parse(stdout);
    }),
  );
  expect(responses).toMatchObject([
    { token: expect.stringMatching(/^gthr_/) },
    { thread: { title: expect.any(String) } },
    { items: [{ app: 'platform', health: 'active', connectUrl: null }] },
    { id: expect.any(String), url: expect.stringContaining('/connect/gthl_') },
    { scheme: 'visa' },
    { results: [{ bin: '45717360' }, { bin: '51234567' }] },
    { scope: 'openid profile', token_type: 'Bearer' },
    { secret: expect.stringMatching(/^whsec_/), events: ['connection.reconnect_needed', 'connection.recovered'] },
  ]);
});

test('the TypeScript examples run unchanged', async () => {
  const assertion = await assertionOf(site, cookie);
  const constants = [
    `const gatehouse = ${JSON.stringify(site.url)};`,
    `const relayToken = ${JSON.stringify(relayToken)};`,
    `const assertion = ${JSON.stringify(assertion)};`,
  ];
  const file = join(directory, 'examples.mts');
  writeFileSync(file, [...constants, ...blocksOf('ts example')].join('\n'));
  const { stdout } = await execute('node', [file]);
  expect(stdout.trim().split('\n')).toEqual([expect.stringMatching(/\w/), 'true true']);
  expect(stdout).not.toContain('refused');
});

test('the webhook example accepts only messages that Gatehouse signed', async () => {
  const file = join(directory, 'webhook.mts');
  writeFileSync(file, blocksOf('ts webhook').join(''));
  const { isFromGatehouse } = await import(file);
  const secret = `whsec_${randomBytes(32).toString('base64')}`;
  const otherSecret = `whsec_${randomBytes(32).toString('base64')}`;
  const [body = ''] = blocksOf('json message');
  const { type, data } = JSON.parse(body);
  expect(WEBHOOK_EVENTS).toContain(type);
  expect(Object.keys(data)).toEqual(['userId', 'app', 'connection', 'cause']);

  const now = Math.floor(Date.now() / 1000);
  const signatureAt = (time: number) => signatureOf(secret, 'msg_1', String(time), body);
  const headersOf = (time: number, signature = signatureAt(time)) =>
    new Headers({ 'webhook-id': 'msg_1', 'webhook-timestamp': String(time), 'webhook-signature': signature });
  expect(isFromGatehouse(secret, headersOf(now), body)).toBe(true);
  expect(isFromGatehouse(secret, headersOf(now, `v1,AAAA ${signatureAt(now)}`), body)).toBe(true);
  expect(isFromGatehouse(otherSecret, headersOf(now), body)).toBe(false);
  expect(isFromGatehouse(secret, headersOf(now), `${body} `)).toBe(false);
  expect(isFromGatehouse(secret, headersOf(now - 600), body)).toBe(false);
  expect(isFromGatehouse(secret, new Headers(), body)).toBe(false);
});

/** The service behind the proxy: reads the thread of the user in the proxy's assertion. */
function startService(): Promise<{ url: string; close: () => void }> {
  return listen(async (req, res) => {
    const assertion = String(req.headers['gatehouse-user-assertion'] ?? '');
    const { status, body } = await relayThread(site, relayToken, { 'gatehouse-user-assertion': assertion });
    res.statusCode = status;
    res.end(body);
  });
}

async function listen(handle: RequestListener): Promise<{ url: string; close: () => void }> {
  const server: Server = createServer(handle).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close: () => server.close() };
}

test('a proxy that makes the documented subrequest verifies who is signed in', async () => {
  const service = await startService();
  const proxy = await listen(async (req, res) => {
    const headers = { ...ACCEPT_JSON, ...(req.headers.cookie ? { cookie: req.headers.cookie } : {}) };
    const verified = await sendRequest(`${site.url}/session/verify?audience=${relayTokenId}`, { headers });
    const assertion = verified.headers['gatehouse-user-assertion'];
    const passed = { 'gatehouse-user-assertion': String(assertion ?? '') };
    const response = verified.status === 200 ? await sendRequest(`${service.url}/`, { headers: passed }) : verified;
    res.statusCode = response.status;
    res.end(response.body);
  });
  const forged = { ...ACCEPT_JSON, 'gatehouse-user-assertion': await assertionOf(site, cookie) };
  const anonymous = await sendRequest(`${proxy.url}/`, { headers: forged });
  expect(anonymous.status).toBe(401);
  const signedIn = await sendRequest(`${proxy.url}/`, { headers: { ...ACCEPT_JSON, cookie } });
  expect([signedIn.status, JSON.parse(signedIn.body)]).toMatchObject([200, { thread: { type: 'document' } }]);
  proxy.close();
  service.close();
});
