/**
 * The audit trail in the administration: by event, actor, target, time and text, on the page, as JSON and as NDJSON.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { AuditEntry } from '../../../../src/gatehouse/audit/kinds.ts';
import { createAuditTrail } from '../../../../src/gatehouse/audit/trail.ts';
import { createUserStore } from '../../../../src/gatehouse/users/user-store.ts';
import type { UserAgent } from '../../../support/browserless.ts';
import { signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';
import { openStorageOf, type StorageAccess } from '../../grants/storage-access.ts';
import { type Administrator, createAdministrator } from '../../relay/service.ts';

const DAY = 86_400_000;
/** Five days ago. The trail has no other entries of that time. */
const MIDNIGHT = Math.floor(Date.now() / DAY) * DAY - 5 * DAY;
const dateOf = (time: number) => new Date(time).toISOString().slice(0, 10);
const FIRST_DAY = dateOf(MIDNIGHT - DAY);
const SECOND_DAY = dateOf(MIDNIGHT);

/** The entries, by the names that the tests below use. */
const ENTRIES: Record<string, { at: number; entry: AuditEntry }> = {
  disabled: {
    at: MIDNIGHT - 1,
    entry: {
      event: 'user.disabled',
      actor: { kind: 'administrator', id: 'u9', name: 'ann@example.test' },
      target: { kind: 'user', id: 'u1', name: 'Uma' },
      userId: 'u1',
    },
  },
  used: {
    at: MIDNIGHT,
    entry: {
      event: 'relay.used',
      actor: { kind: 'relay_token', id: 't1', name: 'reports' },
      target: { kind: 'connected_app', id: 'platform' },
      ...{ userId: 'u1', outcome: 'succeeded', address: '192.0.2.7', requestId: 'request-1' },
      facts: { scope: 'threads:read', apps: ['one', 'two'] },
    },
  },
  ended: { at: MIDNIGHT + 60_000, entry: { event: 'session.ended', actor: { kind: 'provider' }, userId: 'u2' } },
};

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let agent: UserAgent;
beforeAll(async () => {
  site = await startSite();
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  ({ agent } = await signIn(site, 'admin@example.test'));
  const trail = createAuditTrail({ store: storage.store, clock: Date.now });
  for (const { at, entry } of Object.values(ENTRIES)) await trail.append(entry, at);
});
afterAll(async () => {
  await storage.close();
  await site.close();
});

/** The name of each entry in `ENTRIES`, by its event. */
const NAMES_BY_EVENT = new Map(Object.entries(ENTRIES).map(([name, { entry }]) => [entry.event as string, name]));
const BOTH_DAYS = `from=${FIRST_DAY}&to=${SECOND_DAY}`;

const rowsOf = (body: string) => body.split('<th scope="row">').slice(1);

describe.each([
  ['a day, to its end', `from=${FIRST_DAY}&to=${FIRST_DAY}`, ['disabled']],
  ['two days, the newest entry first', BOTH_DAYS, ['ended', 'used', 'disabled']],
  ['from a time', `from=${SECOND_DAY}T00:00:30Z&to=${SECOND_DAY}`, ['ended']],
  ['to a time', `from=${FIRST_DAY}&to=${SECOND_DAY}T00:00:00Z`, ['used', 'disabled']],
  ['an event', `${BOTH_DAYS}&event=relay.used`, ['used']],
  ['an actor by id', `${BOTH_DAYS}&actor=t1`, ['used']],
  ['an actor by name', `${BOTH_DAYS}&actor=ANN@example.test`, ['disabled']],
  ['a user concerned', `${BOTH_DAYS}&target=u1`, ['used', 'disabled']],
  ['a text', `${BOTH_DAYS}&q=succeeded`, ['used']],
  ['an unknown actor', `${BOTH_DAYS}&actor=nobody`, []],
])('the entries of %s', (_filter, query, expectedNames) => {
  test('as JSON', async () => {
    const { status, json } = await admin.call('GET', `/audit?${query}`);
    const items = json.items as { event: string }[];
    expect([status, items.map(({ event }) => NAMES_BY_EVENT.get(event))]).toEqual([200, expectedNames]);
  });

  test('as NDJSON, oldest first', async () => {
    const { headers, body } = await agent.get(`${site.url}/admin/api/audit?format=ndjson&${query}`);
    expect(headers.get('content-disposition')).toBe('attachment; filename="audit.ndjson"');
    const lines = body.split('\n').filter((line) => line !== '');
    const names = lines.map((line) => NAMES_BY_EVENT.get(JSON.parse(line).event));
    expect(names).toEqual(expectedNames.toReversed());
  });

  test('on the page', async () => {
    const { body } = await agent.get(`${site.url}/admin/audit?${query}`);
    const rows = rowsOf(body);
    const words: Record<string, string> = {
      ended: 'Session ended',
      used: 'Relay used by a service',
      disabled: 'User disabled',
    };
    const shownWords = rows.map((row) => /class="cut" title="([^":]*)/.exec(row)?.[1]);
    expect(shownWords).toEqual(expectedNames.map((name) => words[name]));
    expect(body.includes('No entries match')).toBe(expectedNames.length === 0);
  });
});

test('q is the same as text, and pages continue after the previous one', async () => {
  const { json: matching } = await admin.call('GET', `/audit?${BOTH_DAYS}&q=succeeded`);
  expect(matching.items).toMatchObject([{ event: 'relay.used' }]);

  const { json: firstPage } = await admin.call('GET', `/audit?${BOTH_DAYS}&limit=2`);
  expect(firstPage.items).toMatchObject([{ event: 'session.ended' }, { event: 'relay.used' }]);
  const next = encodeURIComponent(String(firstPage.next));
  const { json: lastPage } = await admin.call('GET', `/audit?${BOTH_DAYS}&limit=2&after=${next}`);
  expect([lastPage.items, lastPage.next]).toMatchObject([[{ event: 'user.disabled' }], undefined]);

  const page = await agent.get(`${site.url}/admin/audit?${BOTH_DAYS}&after=${next}`);
  expect(rowsOf(page.body)).toEqual([expect.stringContaining('title="User disabled"')]);
});

test.each([
  ['event=nothing.like.it', '#/event', 'There is no such event.'],
  ['from=soon', '#/from', 'Use a date such as 2026-11-21, or a time such as 2026-11-21T08:00:00Z.'],
  ['from=2026-02-31', '#/from', 'Use a date such as 2026-11-21, or a time such as 2026-11-21T08:00:00Z.'],
  ['to=2020-99-99', '#/to', 'Use a date such as 2026-11-21, or a time such as 2026-11-21T08:00:00Z.'],
  ['to=2026-13-01', '#/to', 'Use a date such as 2026-11-21, or a time such as 2026-11-21T08:00:00Z.'],
])('%s is refused by the API and on the page', async (query, pointer, detail) => {
  const { status, json } = await admin.call('GET', `/audit?${query}`);
  expect([status, json.errors]).toMatchObject([400, [{ pointer, detail }]]);
  const page = await agent.get(`${site.url}/admin/audit?${query}`);
  expect([page.status, page.body.includes('<tbody')]).toEqual([400, false]);
});

test('R88 an export has an audit entry with its filters', async () => {
  await agent.get(`${site.url}/admin/api/audit?format=ndjson&${BOTH_DAYS}&actor=t1`);
  const { json } = await admin.call('GET', '/audit?event=audit.exported&limit=1');
  expect(json.items).toMatchObject([
    {
      actor: { kind: 'administrator', name: 'admin@example.test' },
      facts: { actor: 't1', from: `${FIRST_DAY}T00:00:00.000Z`, to: `${SECOND_DAY}T23:59:59.999Z` },
    },
  ]);
});

describe('filters by names', () => {
  const removal = { at: MIDNIGHT + DAY, event: 'connection.removed' } as const;
  beforeAll(async () => {
    const users = createUserStore({ store: storage.store, clock: Date.now });
    const issuer = site.sandbox.issuer;
    await users.noteSignIn({ id: 'p7', issuer, subject: 's-p7', name: 'Priya Nair', email: 'priya@example.test' });
    await users.noteSignIn({ id: 'a8', issuer, subject: 's-a8', name: 'Ada Moreau', email: 'ada@example.test' });
    // The id of one user is the beginning of another's name.
    await users.noteSignIn({ id: 'p9', issuer, subject: 's-p9', name: 'p7 Elsewhere' });
    const trail = createAuditTrail({ store: storage.store, clock: Date.now });
    const removalBy = (id: string): AuditEntry => ({
      event: removal.event,
      actor: { kind: 'user', id },
      target: { kind: 'connection', id: 'p7/platform' },
      userId: 'p7',
    });
    await trail.append(removalBy('a8'), removal.at);
    await trail.append(
      { ...removalBy('p9'), target: { kind: 'connection', id: 'p9/platform' }, userId: 'p9' },
      removal.at,
    );
  });

  const dayOfRemovals = `from=${dateOf(MIDNIGHT + DAY)}&to=${dateOf(MIDNIGHT + DAY)}`;
  test.each([
    ['the name of the target', 'target=Priya%20Nair', ['a8']],
    ['the first letters of the name of the target', 'target=priya', ['a8']],
    ['the e-mail address of the target', 'target=Priya@example.test', ['a8']],
    ['the name of the actor', 'actor=Ada%20Moreau', ['a8']],
    ['a name as a text', 'q=Nair', ['a8']],
    ['an e-mail address as a text', 'q=ada@example.test', ['a8']],
    ['names of actor and target', 'actor=ada&target=priya', ['a8']],
    ['a name and an event', 'event=connection.removed&target=priya', ['a8']],
    ['only an id', 'target=p7', ['a8']],
    ['the name of an app', 'q=collaboration', ['p9', 'a8']],
    ['the name of a target as that of the actor', 'actor=Priya%20Nair', []],
  ])('%s', async (_filter, query, expectedActors) => {
    const { json } = await admin.call('GET', `/audit?${dayOfRemovals}&${query}`);
    expect((json.items as AuditEntry[]).map(({ actor }) => actor.id)).toEqual(expectedActors);

    const { body } = await agent.get(`${site.url}/admin/audit?${dayOfRemovals}&${query}`);
    expect(rowsOf(body)).toHaveLength(expectedActors.length);

    const ndjson = await agent.get(`${site.url}/admin/api/audit?format=ndjson&${dayOfRemovals}&${query}`);
    const lines = ndjson.body.split('\n').filter((line) => line !== '');
    expect(lines).toHaveLength(expectedActors.length);
  });

  test('says if too many users match, and continues with further pages', async () => {
    const users = createUserStore({ store: storage.store, clock: Date.now });
    const trail = createAuditTrail({ store: storage.store, clock: Date.now });
    const numbers = Array.from({ length: 30 }, (_, number) => String(number).padStart(2, '0'));
    const at = MIDNIGHT + 2 * DAY;
    await Promise.all(
      numbers.map(async (number) => {
        const id = `many-${number}`;
        await users.noteSignIn({ id, issuer: site.sandbox.issuer, subject: id, name: `Zoe ${number}` });
        await trail.append({ event: 'session.ended', actor: { kind: 'user', id }, userId: id }, at + Number(number));
      }),
    );
    const { body } = await agent.get(`${site.url}/admin/audit?actor=zoe`);
    expect([rowsOf(body).length, body.includes('More than 25 users')]).toEqual([25, true]);
    const actors: unknown[] = [];
    let after: unknown = '';
    while (after !== undefined) {
      const { json } = await admin.call('GET', `/audit?actor=zoe&limit=10&after=${encodeURIComponent(String(after))}`);
      actors.push(...(json.items as AuditEntry[]).map(({ actor }) => actor.id));
      after = json.next;
    }
    const firstUsers = numbers.slice(0, 25).map((number) => `many-${number}`);
    expect(actors).toEqual(firstUsers.toReversed());
  });
});

test('a row names actor and target, and the user if that is neither', async () => {
  const { body } = await agent.get(`${site.url}/admin/audit?${BOTH_DAYS}`);
  expect(body).toContain(`/admin/api/audit?format=ndjson&amp;${BOTH_DAYS.replace('&', '&amp;')}"`);
  const [ended = '', used = '', disabled = ''] = rowsOf(body).map((row) => row.replace(/\s+/g, ' '));
  expect(ended).toMatch(/data-label="By"><span class="cut"[^>]*><bdi>An identity provider<\/bdi>/);
  expect(ended).toMatch(
    /data-label="Target">– <span class="list-below"><a class="cut" href="\?target=u2" title="u2"><bdi>For /,
  );
  expect(used).toMatch(/<a class="cut" href="\?actor=t1"[^>]*><bdi>reports<\/bdi><\/a>/);
  expect(used).toMatch(/<a class="cut" href="\?target=platform"[^>]*><bdi>Collaboration platform<\/bdi><\/a>/);
  expect(used).toMatch(/<span class="list-below"><a class="cut" href="\?target=u1" title="u1"><bdi>For u1<\/bdi>/);
  for (const words of ['succeeded', '192.0.2.7', 'request-1', '<dt>apps</dt><dd><bdi>one, two<']) {
    expect(used).toContain(words);
  }
  expect(disabled).toMatch(/<a class="cut" href="\?actor=u9"[^>]*><bdi>ann@example.test<\/bdi><\/a>/);
  expect(disabled).toMatch(/<a class="cut" href="\?target=u1"[^>]*><bdi>Uma<\/bdi><\/a>/);
  expect(disabled).not.toContain('For ');
});
