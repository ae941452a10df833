/** The check and the sign-in record of a provider that cannot be called: the cause, the host, and what to do. */
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Finding } from '../../../../src/gatehouse/connected-apps/finding.ts';
import { sandboxApp, startSite, type TestSite } from '../../../support/gatehouse.ts';
import { freePort } from '../../../support/ports.ts';
import { selfSigned } from '../../../support/self-signed.ts';
import { ACCEPT_HTML, sendRequest } from '../../../support/send-request.ts';
import { openStorageOf, type StorageAccess } from '../../grants/storage-access.ts';
import { type Administrator, createAdministrator } from '../../relay/service.ts';

const SECRET_PATH = 'a-path-that-no-text-repeats';

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let untrusted: Server;
let closedPort: number;
beforeAll(async () => {
  untrusted = createServer(selfSigned('127.0.0.1'), (_req, res) => res.end('{}'));
  await new Promise<void>((resolve) => untrusted.listen(0, '127.0.0.1', resolve));
  closedPort = await freePort();
  const issuers = {
    refused: `https://127.0.0.1:${closedPort}/${SECRET_PATH}`,
    unknown: `https://idp.invalid/${SECRET_PATH}`,
    untrusted: `https://127.0.0.1:${portOf(untrusted)}/${SECRET_PATH}`,
  };
  site = await startSite({
    env: { ADMIN_APP: 'platform' },
    apps: (at) => [
      sandboxApp(at, 'platform'),
      ...Object.entries(issuers).map(([id, issuer]) => ({
        ...sandboxApp(at, 'platform', { callbackUrls: [`${at.url}/oauth/callback/${id}`] }),
        ...{ id, issuer },
      })),
      sandboxApp(at, 'platform', { id: 'private' }),
    ],
  });
  site.sandbox.faults.set({
    ...{ listener: 'identity-provider', path: '/.well-known/openid-configuration', kind: 'rewrite' },
    change: (metadata) => ({ ...metadata, token_endpoint: `https://10.1.2.3/${SECRET_PATH}` }),
  });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
});
afterAll(async () => {
  await storage.close();
  await site.close();
  await new Promise((resolve) => untrusted.close(resolve));
});

const portOf = (server: Server) => (server.address() as AddressInfo).port;

const CASES: [app: string, cause: () => RegExp, advice: RegExp][] = [
  ['refused', () => new RegExp(`127\\.0\\.0\\.1:${closedPort} refused the connection \\(ECONNREFUSED\\)`), /port/],
  ['unknown', () => /the name idp\.invalid cannot be resolved \((ENOTFOUND|EAI_AGAIN)\)/, /DNS/],
  [
    'untrusted',
    () =>
      new RegExp(
        `certificate of 127\\.0\\.0\\.1:${portOf(untrusted)} is signed by an unknown authority \\(DEPTH_ZERO_SELF_SIGNED_CERT\\)`,
      ),
    /CA_FILE/,
  ],
  ['private', () => /address policy refuses 10\.1\.2\.3:443 \(private_address\)/, /INTERNAL_HOSTS/],
];

test.each(CASES)('the check names the cause and what to do: %s', async (id, cause, advice) => {
  const { json } = await admin.call('POST', `/connected-apps/${id}/check`, {});
  const problems = (json.findings as Finding[]).filter(({ result }) => result === 'failed');
  expect(problems).toEqual([
    expect.objectContaining({ detail: expect.stringMatching(cause()), advice: expect.stringMatching(advice) }),
  ]);
  expect(JSON.stringify(json)).not.toContain(SECRET_PATH);
});

test.each(CASES)('the record of a sign-in names the cause and what to do: %s', async (id, cause, advice) => {
  const page = await sendRequest(`${site.url}/sign-in?app=${id}`, { headers: ACCEPT_HTML });
  const reference = /<code class="reference"[^>]*>(\w{8})</.exec(page.body)?.[1] ?? '';
  expect(page.body).not.toMatch(cause());
  const { status, json } = await admin.call('GET', `/sign-ins/${reference}`);
  expect([status, json.cause]).toEqual([
    200,
    expect.objectContaining({ text: expect.stringMatching(cause()), advice: expect.stringMatching(advice) }),
  ]);
  expect(JSON.stringify(json)).not.toContain(SECRET_PATH);
  expect(site.logs().some((line) => cause().test(line))).toBe(true);
});
