/** What needs attention, on the overview: each group has a reason and a link to the page for it. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { keys } from '../../../../src/shared/storage/keys.ts';
import type { UserAgent } from '../../../support/browserless.ts';
import { CLIENT_SECRET, getJson, sandboxApp, signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';
import { until } from '../../../support/until.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../../grants/storage-access.ts';
import { type Administrator, createAdministrator } from '../../relay/service.ts';

interface Attention {
  kind: string;
  severity: string;
  count: number;
  text: string;
  detail: string | null;
  since: string | null;
  expiresAt: string | null;
  path: string;
  action: string;
}

const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString();

describe('an empty attention list', () => {
  test('says that nothing needs attention, and when it was checked', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'gatehouse-attention-'));
    const file = join(directory, 'bins.csv');
    writeFileSync(file, 'iin_start,iin_end,scheme,country\n45717360,,visa,DK\n');
    const emptySite = await startSite({ env: { BIN_DATASET_FILE: file } });
    const { agent: administrator } = await signIn(emptySite, 'admin@example.test');
    const { json } = await getJson(administrator, `${emptySite.url}/admin/api/overview`);
    expect(json.attention).toEqual([]);
    expect((await administrator.get(`${emptySite.url}/admin`)).body).toMatch(
      /Nothing needs attention\. <span class="quiet">Checked at <time datetime=/,
    );
    await emptySite.close();
    rmSync(directory, { recursive: true });
  });
});

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let agent: UserAgent;
let userId: string;
beforeAll(async () => {
  site = await startSite({ sandbox: { accessTokenSeconds: 3_600 } });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  const signedIn = await signIn(site, 'admin@example.test');
  agent = signedIn.agent;
  ({ userId } = await sessionOf(site, agent));
});
afterAll(async () => {
  await storage.close();
  await site.close();
});

const readAttention = async () =>
  (await admin.call('GET', '/overview')).json as unknown as { attention: Attention[]; checkedAt: string };
const itemsOfKind = async (kind: string) => (await readAttention()).attention.filter((item) => item.kind === kind);

test('a new installation only has the old built-in BIN data', async () => {
  const { attention, checkedAt } = await readAttention();
  // `createAdministrator` created an admin token for an hour.
  expect(attention.map(({ kind }) => kind)).toEqual(['admin_token_expiring', 'bin_data_old']);
  expect(Math.abs(Date.now() - Date.parse(checkedAt))).toBeLessThan(60_000);
});

test('connections that need reconnecting are listed by app, with the most frequent cause', async () => {
  await storage.changeGrant(userId, () => ({
    failure: {
      kind: 'reconnect_needed',
      cause: 'grant_refused',
      since: Date.now(),
      failures: 1,
      retryAt: 0,
      reason: 'invalid_grant',
    },
  }));
  // The process that saves the grant updates the list.
  const member = JSON.stringify([userId, 'platform']);
  await storage.store.write([
    { index: keys.connections('state', 'active'), remove: member },
    { index: keys.connections('state', 'reconnect_needed'), add: member, score: Date.now() },
  ]);
  expect(await itemsOfKind('connections_reconnect_needed')).toEqual([
    {
      kind: 'connections_reconnect_needed',
      severity: 'critical',
      count: 1,
      text: '1 connection to Collaboration platform needs reconnecting',
      detail: 'The provider has ended this connection. (invalid_grant)',
      since: null,
      expiresAt: null,
      path: '/connections?app=platform&health=reconnect_needed',
      action: 'Show',
    },
  ]);
  const { body } = await agent.get(`${site.url}/admin`);
  expect(body).toContain('1 connection to Collaboration platform needs reconnecting');
  expect(body).toContain('href="/admin/connections?app=platform&amp;health=reconnect_needed"');
});

test('connections of a deleted app are listed by its id', async () => {
  const member = JSON.stringify([userId, 'gone']);
  const list = keys.connections('state', 'unverified');
  await storage.store.write([{ index: list, add: member, score: Date.now() }]);
  expect(await itemsOfKind('connections_unverified')).toMatchObject([
    { text: '1 connection to gone is unverified', path: '/connections?app=gone&health=unverified' },
  ]);
  await storage.store.write([{ index: list, remove: member }]);
});

test('lists tokens that expire within two weeks, and none that expires later', async () => {
  const soon = await admin.createRelayToken({ name: 'nightly', expiresAt: inDays(6.5) });
  await admin.createRelayToken({ name: 'later', expiresAt: inDays(15) });
  expect(await itemsOfKind('relay_token_expiring')).toMatchObject([
    { severity: 'warning', text: 'Relay token nightly expires in 6 days', path: `/relay-tokens/${soon.id}` },
  ]);
});

test('several items of a kind are one group, which names the three worst and links to the list', async () => {
  await admin.createRelayToken({ name: 'weekly', expiresAt: inDays(8.4) });
  const group = {
    kind: 'relay_token_expiring',
    severity: 'warning',
    since: null,
    expiresAt: expect.any(String),
    action: 'Show',
  };
  const path = '/relay-tokens?state=expiring';
  expect(await itemsOfKind('relay_token_expiring')).toEqual([
    { ...group, count: 2, text: '2 relay tokens expire', detail: 'nightly in 6 days, weekly in 8 days', path },
  ]);

  for (let number = 1; number <= 5; number += 1)
    await admin.createRelayToken({ name: `short ${number}`, expiresAt: inDays(number + 0.4) });

  expect(await itemsOfKind('relay_token_expiring')).toEqual([
    {
      ...{ ...group, count: 7, text: '7 relay tokens expire', path },
      detail: 'short 1 in 1 day, short 2 in 2 days, short 3 in 3 days, and 4 more',
    },
  ]);
});

test('lists an app that cannot be used, and not its new client secret', async () => {
  const app = sandboxApp(site, 'second', {
    clientSecret: CLIENT_SECRET,
    callbackUrls: ['https://other.example.com/cb'],
  });
  expect((await admin.call('POST', '/connected-apps', app)).status).toBe(201);

  expect(await itemsOfKind('app_unusable')).toMatchObject([{ severity: 'critical', path: '/connected-apps/second' }]);
  expect(await itemsOfKind('client_secret')).toEqual([]);
});

test('lists a failing webhook with its start and last response', async () => {
  const url = `${site.sandbox.platformUrl}/nothing-here`;
  const { json } = await admin.call('POST', '/webhooks', { url, events: ['connection.removed'] });
  expect((await admin.call('POST', `/webhooks/${json.id}/test`)).status).toBeLessThan(300);
  await until(async () => (await itemsOfKind('webhook_failing')).length === 1);
  expect(await itemsOfKind('webhook_failing')).toMatchObject([
    {
      severity: 'critical',
      text: `Webhook ${new URL(url).host} is failing`,
      detail: expect.stringMatching(/^Last response: /),
      since: expect.any(String),
      path: `/webhooks/${json.id}`,
    },
  ]);
});

test('items of severity critical come first, then those that expire first', async () => {
  const { attention } = await readAttention();
  const severities = attention.map(({ severity }) => severity);
  const expiries = attention
    .filter(({ severity }) => severity === 'warning')
    .map(({ expiresAt }) => expiresAt ?? 'never');
  expect(expiries.length).toBeGreaterThan(2);
  expect(expiries).toEqual(expiries.toSorted());
  expect(severities).toEqual(severities.toSorted());
  expect(new Set(severities)).toEqual(new Set(['critical', 'warning']));
});

test('the page shows the urgent groups, and the others on demand', async () => {
  const { attention } = await readAttention();
  const { body } = await agent.get(`${site.url}/admin`);
  const [, shown = '', others = ''] =
    /id="attention-title">(.*?)<details class="attention-others">(.*?)<\/details>/s.exec(body) ?? [];
  const textsIn = (html: string) => [...html.matchAll(/<p><bdi>([^<]*)</g)].map(([, text]) => text);
  const texts = attention.map(({ text }) => text);
  // Two that fail, and the admin and relay tokens that expire soon.
  expect(textsIn(shown)).toEqual(texts.slice(0, 5));
  expect(textsIn(others)).toEqual(texts.slice(5));
  expect(others).toContain(
    `<summary>${texts.length - 5} more: <span class="quiet">${texts.slice(5).join(', ')}</span>`,
  );
});
