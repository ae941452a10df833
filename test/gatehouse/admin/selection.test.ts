/** Actions on selected items skip items that are gone, and the notice has their number. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { appOfFile } from '../../support/apps.ts';
import type { Page, UserAgent } from '../../support/browserless.ts';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { startStopwatch } from '../../support/stopwatch.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { type Administrator, createAdministrator } from '../relay/service.ts';
import { grantOf } from './many.ts';

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let agent: UserAgent;
beforeAll(async () => {
  site = await startSite();
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  ({ agent } = await signIn(site, 'admin@example.test'));
});
afterAll(async () => {
  await storage?.close();
  await site?.close();
});

/** Opens the question about these items. */
const openQuestion = (path: string, ids: readonly string[], userAgent = agent) =>
  userAgent.get(`${site.url}/admin/${path}?${new URLSearchParams(ids.map((id) => ['id', id]))}`);
/** Submits the form with each of its ids, like a browser. */
function confirm(page: Page, userAgent = agent): Promise<Page> {
  const form = page.forms.find(({ action }) => action.includes('/admin/') && !action.endsWith('/search'));
  const body = new URLSearchParams([
    ...(form?.fields ?? []).filter(([name]) => name !== 'id'),
    ...[...page.body.matchAll(/name="id" value="([^"]*)"/g)].map(([, id = '']) => ['id', id] as [string, string]),
  ]);
  return userAgent.request(`${site.url}${form?.action}`, { method: 'POST', body });
}
const noticeOn = ({ body }: Page) => /<div class="notice notice-\w+" role="status">.*?<p>([^<]*)<\/p>/s.exec(body)?.[1];
const createTokens = (count: number) =>
  Promise.all(
    Array.from({ length: count }, async (_, number) => {
      const { id } = await admin.createRelayToken({ name: `one-${number}` });
      return id;
    }),
  );

test('relay tokens: skips a token that another administrator has revoked meanwhile', async () => {
  const ids = await createTokens(3);
  const question = await openQuestion('relay-tokens/revoke', ids);
  const questionInOtherTab = await openQuestion('relay-tokens/revoke', ids);
  expect(question.body).toContain('Revoke 3 relay tokens');
  await admin.call('DELETE', `/relay-tokens/${ids[1]}`);
  const done = await confirm(question);
  expect([done.status, noticeOn(done)]).toEqual([
    200,
    '2 relay tokens revoked. Every further call with them is refused. 1 was already gone.',
  ]);

  const repeated = await confirm(questionInOtherTab);
  expect([repeated.status, noticeOn(repeated)]).toEqual([200, 'Nothing to do: 3 were already gone.']);
  for (const id of ids) expect((await admin.call('GET', `/relay-tokens/${id}`)).status).toBe(404);
});

test('relay tokens: two simultaneous revocations revoke each token once', async () => {
  const ids = await createTokens(30);
  const { agent: otherAgent } = await signIn(site, 'admin@example.test');
  const questions = await Promise.all([
    openQuestion('relay-tokens/revoke', ids),
    openQuestion('relay-tokens/revoke', ids, otherAgent),
  ]);
  const pages = await Promise.all([confirm(questions[0]), confirm(questions[1], otherAgent)]);
  expect(pages.map(({ status }) => status)).toEqual([200, 200]);
  const revokedCountOn = (page: Page) => {
    const notice = noticeOn(page) ?? '';
    if (notice.startsWith('Relay token revoked')) return 1;
    return Number(/^(\d+) relay tokens revoked/.exec(notice)?.[1] ?? 0);
  };
  expect(revokedCountOn(pages[0]) + revokedCountOn(pages[1])).toBe(30);
});

test('sessions and connections: counts those that have already ended', async () => {
  const users: string[] = [];
  for (const login of ['user@example.test', 'second@example.test']) {
    const { agent: userAgent } = await signIn(site, login);
    users.push((await sessionOf(site, userAgent)).userId);
  }
  const firstIdOf = async (path: string, user: string) => {
    const { json } = await admin.call('GET', `/${path}?user=${user}`);
    return (json.items as [{ id: string }])[0].id;
  };
  for (const [path, button, notice] of [
    ['sessions', 'End 2 sessions', 'The session has ended. Pages that are open in that browser stop working.'],
    [
      'connections',
      'Disconnect 2 connections',
      'Disconnected. The provider has confirmed the revocation (status 200).',
    ],
  ] as const) {
    const ids = await Promise.all(users.map((user) => firstIdOf(path, user)));
    const question = await openQuestion(`${path}/end`, ids);
    expect(question.body).toMatch(new RegExp(`<h1 id="confirm-title">${button}\\?</h1>.*>${button}</button>`, 's'));
    const questionInOtherTab = await openQuestion(`${path}/end`, ids);
    await admin.call('DELETE', `/${path}/${ids[0]}`);
    const done = await confirm(question);
    expect([done.status, noticeOn(done)]).toEqual([200, `${notice} 1 was already gone.`]);

    const repeated = await confirm(questionInOtherTab);
    expect([repeated.status, noticeOn(repeated)]).toEqual([200, 'Nothing to do: 2 were already gone.']);
  }
});

test('connections: waits at most 5 s for a provider, and records its late responses', async () => {
  const users = Array.from({ length: 25 }, (_, at) => `u${String(at).padStart(22, '0')}`);
  const app = appOfFile(site.env);
  for (const user of users) await storage.grants.save(grantOf(user, app), 0);
  const { promise: until, resolve: releaseResponses } = Promise.withResolvers<void>();
  const heal = site.sandbox.faults.set({ listener: 'identity-provider', path: '/revoke', kind: 'hold', until });
  const question = await openQuestion(
    'connections/end',
    users.map((user) => `${user}.platform`),
  );
  const elapsed = startStopwatch();
  const done = await confirm(question);
  expect(elapsed()).toBeLessThan(8_000);
  expect([done.status, noticeOn(done)]).toEqual([
    200,
    '25 connections ended here. The provider has confirmed 0 of the revocations.',
  ]);
  for (const user of users) expect(await storage.grants.loadStored(user, 'platform')).toBeUndefined();
  expect((await admin.call('GET', '/revocations?limit=200')).json.items).toHaveLength(25);

  releaseResponses();
  heal();
  await expect.poll(async () => (await admin.call('GET', '/revocations')).json.items).toEqual([]);
  const confirmed = async () => (await admin.call('GET', `/audit?event=revocation.confirmed&target=${users[24]}`)).json;
  await expect.poll(confirmed).toMatchObject({ items: [{ userId: users[24], outcome: 'confirmed' }] });
});
