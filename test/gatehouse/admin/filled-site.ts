/**
 * A site with data on every page of the administration. Only the test moves its clock, so its pages are always the
 * same.
 */
import { vi } from 'vitest';
import { createUserAgent } from '../../support/browserless.ts';
import { CLIENT_SECRET, PASSWORD, sandboxApp, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { JSON_BODY, sendRequest } from '../../support/send-request.ts';
import { until } from '../../support/until.ts';
import { type Receiver, startReceiver } from '../../support/webhook-receiver.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { type Administrator, assertionOf, bearer, createAdministrator, relayThread } from '../relay/service.ts';

const START = Date.UTC(2031, 2, 5, 10, 0);
const MINUTE_MS = 60_000;
export const DAY_MS = 86_400_000;
export const inDays = (days: number) => new Date(START + days * DAY_MS).toISOString();

interface Parts {
  site: TestSite;
  storage: StorageAccess;
  api: Administrator;
  receiver: Receiver;
}

export type FilledSite = Awaited<ReturnType<typeof startFilledSite>>;

export async function startFilledSite() {
  vi.useFakeTimers({ toFake: ['Date'], now: START });
  const receiver = await startReceiver();
  const site = await startSite({
    sandbox: { accessTokenSeconds: 3_600 },
    env: { RATE_LIMIT_PER_SESSION_PER_MINUTE: '0' },
  });
  const storage = await openStorageOf(site);
  const api = await createAdministrator(site, storage);
  const { ids, apiToken } = await fill({ site, storage, api, receiver });
  const agent = await signInAs('admin@example.test', 'platform', { site, api });
  ids.ada = (await sessionOf(site, agent)).userId;
  ids.signIn = await idOf(api, '/sign-ins?outcome=unsuccessful');
  ids.session = await idOf(api, `/sessions?user=${ids.uma}`);
  ids.ownSession = await idOf(api, `/sessions?user=${ids.ada}`);
  return {
    ...{ site, storage, api, receiver, agent, apiToken },
    /** Replaces names such as `{uma}` in a path by the ids of this run. */
    pathOf: (text: string) => text.replaceAll(/\{(\w+)\}/g, (_all, name) => encodeURIComponent(ids[name] ?? '')),
    /** Replaces ids, addresses and secrets, which differ from run to run, by names. */
    clean: (text: string) => cleaned(text, { site, receiver, ids }),
    /**
     * Resolves up to two seconds later, once timelines have the calls of services and each key its count of records.
     */
    async untilCounted(): Promise<void> {
      const areRecordsCounted = async () => (await api.call('GET', '/keys')).json.countedAt !== null;
      // The first request begins the count.
      await areRecordsCounted();
      const { reports, nightly, uma } = ids;
      const withCalls = [`relay-tokens/${reports}`, `relay-tokens/${nightly}`, `users/${uma}`, 'connected-apps/second'];
      for (const path of withCalls) {
        await until(async () => {
          const { json: timeline } = await api.call('GET', `/${path}/timeline`);
          return JSON.stringify(timeline).includes('relay.calls');
        });
      }
      await until(areRecordsCounted);
    },
    async close(): Promise<void> {
      await storage.close();
      await site.close();
      receiver.close();
      vi.useRealTimers();
    },
  };
}

/** Moves the clock. Items that are created a minute apart have a fixed order in every list. */
export function advanceBy(milliseconds: number): void {
  vi.setSystemTime(Date.now() + milliseconds);
}

const advanceByMinute = () => advanceBy(MINUTE_MS);

async function fill({ site, storage, api, receiver }: Parts) {
  const create = async (path: string, body?: unknown) => {
    advanceByMinute();
    const { status, json } = await api.call('POST', path, body);
    if (status >= 300) throw new Error(`POST ${path}: ${status} ${JSON.stringify(json)}`);
    return json as { id: string; token: string };
  };
  await create('/connected-apps', sandboxApp(site, 'second', { clientSecret: CLIENT_SECRET }));
  const agent = await signInAs('user@example.test', 'platform', { site, api });
  await signInAs('user@example.test', 'second', { site, api });
  await denyConsent(site);

  const { userId: uma } = await sessionOf(site, agent);
  const { accessToken: apiToken } = await storage.readGrant(uma);
  const scopes = ['threads:read', 'bin:read', 'token:exchange', 'connections:read', 'connect_links:create'];
  const reports = await create('/relay-tokens', {
    ...{ name: 'reports', scopes, apps: ['platform'], users: 'all', networks: ['127.0.0.0/8'] },
    ...{ expiresAt: '2099-01-31T00:00:00Z', binCallsPerMonth: 500 },
  });
  const nightly = await create('/relay-tokens', {
    ...{ name: 'nightly', scopes, apps: ['platform', 'second'], users: [uma, 'not-seen-yet'], networks: [] },
    ...{ expiresAt: inDays(9), assertUser: true },
  });
  const account = await create('/service-accounts', { name: 'Batch', app: 'platform', apiToken });
  const webhook = await create('/webhooks', { url: receiver.url, events: ['connection.removed'] });
  const terraform = await create('/admin-tokens', { name: 'terraform', scope: 'read', expiresAt: inDays(90) });

  const callAsUser = async () => {
    const assertion = await assertionOf(site, agent.cookies.header(site.url));
    return relayThread(site, reports.token, { 'gatehouse-user-assertion': assertion });
  };
  const linkRequest = { method: 'POST', headers: { ...bearer(nightly.token), ...JSON_BODY } };
  for (const call of [
    callAsUser,
    callAsUser,
    () => relayThread(site, reports.token, { 'gatehouse-user': uma }),
    () => sendRequest(`${site.url}/relay/bin/45717360`, { headers: bearer(reports.token) }),
    () =>
      sendRequest(`${site.url}/relay/connect-links`, {
        ...linkRequest,
        body: JSON.stringify({ userId: uma, app: 'second' }),
      }),
  ]) {
    advanceByMinute();
    await call();
  }
  const testMessage = await create(`/webhooks/${webhook.id}/test`);
  await until(async () => JSON.stringify((await api.call('GET', '/webhooks')).json).includes('"status":204'));
  const expectedCounts = { 'relay.succeeded': 4, 'relay.refused': 1 };
  await until(async () => {
    const total = (await api.call('GET', '/overview')).json.total as Record<string, number>;
    return Object.entries(expectedCounts).every(([event, count]) => total[event] === count);
  });
  const ids: Record<string, string> = {
    ...{ uma, reports: reports.id, nightly: nightly.id, account: account.id, webhook: webhook.id },
    ...{ message: testMessage.id, terraform: terraform.id, link: await idOf(api, '/connect-links') },
    ...{ test: await idOf(api, '/admin-tokens?q=test') },
  };
  return { ids, apiToken };
}

/** Returns the id of the newest item of a list. */
async function idOf(api: Administrator, list: string): Promise<string> {
  const [newest] = (await api.call('GET', list)).json.items as { id: string }[];
  return String(newest?.id);
}

/**
 * Signs in, and waits until the sign-in is in the audit trail, so that later actions follow it in the lists.
 */
async function signInAs(login: string, app: string, { site, api }: Pick<Parts, 'site' | 'api'>) {
  advanceByMinute();
  const { agent } = await signIn(site, login, { path: `/sign-in?app=${app}` });
  const now = new Date().toISOString();
  await until(async () => {
    const { json } = await api.call('GET', '/audit?event=sign_in.succeeded&limit=1');
    return (json.items as { at: string }[])[0]?.at === now;
  });
  return agent;
}

async function denyConsent(site: TestSite): Promise<void> {
  advanceByMinute();
  const agent = createUserAgent();
  const login = await agent.get(`${site.url}/sign-in?app=platform`);
  const consent = await agent.submit(login, { login: 'second@example.test', password: PASSWORD });
  await agent.submit(consent, {}, { button: 'Deny' });
}

interface ReplacedParts {
  site: TestSite;
  receiver: Receiver;
  ids: Readonly<Record<string, string>>;
}

function cleaned(text: string, { site, receiver, ids }: ReplacedParts): string {
  const { sandbox } = site;
  const idNames: [value: string, name: string][] = [];
  for (const [name, id] of Object.entries(ids)) idNames.push([id, `{${name}}`]);
  for (const [name, id] of Object.entries(ids)) idNames.push([encodeURIComponent(id), `{${name}}`]);
  // Lists show only the beginning of an id, at the start of a cell or in parentheses.
  for (const [name, id] of Object.entries(ids)) {
    const beginning = id.slice(0, 8);
    idNames.push([`| ${beginning}`, `| {${name}…}`], [`(${beginning}`, `({${name}…}`]);
  }
  const addressNames: [value: string, name: string][] = [
    [site.url, 'https://gatehouse.example'],
    [sandbox.issuer, 'https://provider.example'],
    [new URL(sandbox.issuer).origin, 'https://provider.example'],
    [new URL(sandbox.platformUrl).origin, 'https://platform.example'],
    [new URL(receiver.url).origin, 'https://receiver.example'],
    [new URL(site.url).host, 'gatehouse.example'],
    [`cookie gatehouse.${new URL(site.url).port}`, 'cookie gatehouse.{port}'],
    [new URL(receiver.url).host, 'receiver.example'],
  ];
  let result = text;
  for (const [value, name] of [...idNames, ...addressNames]) result = result.replaceAll(value, name);
  for (const [pattern, name] of RANDOM_VALUES) result = result.replaceAll(pattern, name);
  return result;
}

/** Patterns of values that differ from run to run, in the order in which they are replaced, and their names. */
const RANDOM_VALUES: readonly [RegExp, string][] = [
  [/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, '{uuid}'],
  [/\b[0-9a-f]{8}\b/g, '{reference}'],
  [/(\{\w+\}(?:\.|%2E))[\w-]{16}(?![\w-])/g, '$1{rest}'],
  [/\bk\d{8}-[0-9a-f]{4}\b/g, '{kid}'],
  [/\bbase=\d+ [^\]]+/g, 'base={what it showed}'],
  [/\bversion=\d+/g, 'version={version}'],
  [/(?<![\w-])[\w-]{43}(?![\w-])/g, '{thumbprint}'],
  // The provider's clock is the real one.
  [/This clock is \d+ s (?:ahead of|behind)/g, 'This clock is {seconds} off'],
  [/\bmsg_[\w-]{22}(?![\w-])/g, '{new message}'],
  [/\b(?:sa|wh)[\w-]{11}(?![\w-])/g, '{new}'],
  [/\bcn[0-9A-Za-z]{11}\b/g, '{connection}'],
  [/\b((?:relay|admin)_token )[\w-]{11}(?![\w-])/g, '$1{new}'],
];
