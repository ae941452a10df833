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

/** Some days ago: only these entries are of that time. */
const DAY = 86_400_000;
const MIDNIGHT = Math.floor(Date.now() / DAY) * DAY - 5 * DAY;
const dateOf = (time: number) => new Date(time).toISOString().slice(0, 10);
const [FIRST, SECOND] = [dateOf(MIDNIGHT - DAY), dateOf(MIDNIGHT)];

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
      ...{ userId: 'u1', outcome: 'answered', address: '192.0.2.7', requestId: 'request-1' },
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

const NAMES = new Map(Object.entries(ENTRIES).map(([name, { entry }]) => [entry.event as string, name]));
const BOTH_DAYS = `from=${FIRST}&to=${SECOND}`;

const rowsOf = (body: string) => body.split('<th scope="row">').slice(1);

describe.each([
  ['a day, to its end', `from=${FIRST}&to=${FIRST}`, ['disabled']],
  ['two days, the newest entry first', BOTH_DAYS, ['ended', 'used', 'disabled']],
  ['from a time', `from=${SECOND}T00:00:30Z&to=${SECOND}`, ['ended']],
  ['to a time', `from=${FIRST}&to=${SECOND}T00:00:00Z`, ['used', 'disabled']],
  ['an event', `${BOTH_DAYS}&event=relay.used`, ['used']],
  ['an actor by id', `${BOTH_DAYS}&who=t1`, ['used']],
  ['an actor by name', `${BOTH_DAYS}&who=ANN@example.test`, ['disabled']],
  ['a user concerned', `${BOTH_DAYS}&whom=u1`, ['used', 'disabled']],
  ['a text', `${BOTH_DAYS}&text=answered`, ['used']],
  ['nothing that there is', `${BOTH_DAYS}&who=nobody`, []],
])('%s', (_name, query, wanted) => {
  test('as JSON', async () => {
    const { status, json } = await admin.call('GET', `/audit?${query}`);
    const items = json.items as { event: string }[];
    expect([status, items.map(({ event }) => NAMES.get(event))]).toEqual([200, wanted]);
  });

  test('as NDJSON, oldest first', async () => {
    const { headers, body } = await agent.get(`${site.url}/admin/api/audit?format=ndjson&${query}`);
    expect(headers.get('content-disposition')).toBe('attachment; filename="audit.ndjson"');
    const events = body.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line).event]));
    expect(events.map((event) => NAMES.get(event))).toEqual(wanted.toReversed());
  });

  test('on the page', async () => {
    const { body } = await agent.get(`${site.url}/admin/audit?${query}`);
    const rows = rowsOf(body);
    const words = { ended: 'Session ended', used: 'Relay used by a service', disabled: 'User disabled' };
    const shown = rows.map((row) => /class="cut" title="([^":]*)/.exec(row)?.[1]);
    expect(shown).toEqual(wanted.map((name) => words[name as keyof typeof words]));
    expect(body.includes('No entries match')).toBe(wanted.length === 0);
  });
});

test('q is the same as text, and pages continue after the previous one', async () => {
  const { json: found } = await admin.call('GET', `/audit?${BOTH_DAYS}&q=answered`);
  expect(found.items).toMatchObject([{ event: 'relay.used' }]);
  const { json: first } = await admin.call('GET', `/audit?${BOTH_DAYS}&limit=2`);
  expect(first.items).toMatchObject([{ event: 'session.ended' }, { event: 'relay.used' }]);
  const next = encodeURIComponent(String(first.next));
  const { json: last } = await admin.call('GET', `/audit?${BOTH_DAYS}&limit=2&after=${next}`);
  expect([last.items, last.next]).toMatchObject([[{ event: 'user.disabled' }], undefined]);
  const page = await agent.get(`${site.url}/admin/audit?${BOTH_DAYS}&after=${next}`);
  expect(rowsOf(page.body)).toEqual([expect.stringContaining('title="User disabled"')]);
});

test.each([
  ['event=nothing.like.it', '#/event', 'There is no such event.'],
  ['from=soon', '#/from', 'Use a date such as 2026-11-21, or a time such as 2026-11-21T08:00:00Z.'],
  ['from=2026-02-31', '#/from', 'Use a date such as 2026-11-21, or a time such as 2026-11-21T08:00:00Z.'],
  ['to=2020-99-99', '#/to', 'Use a date such as 2026-11-21, or a time such as 2026-11-21T08:00:00Z.'],
  ['to=2026-13-01', '#/to', 'Use a date such as 2026-11-21, or a time such as 2026-11-21T08:00:00Z.'],
])('%s is refused by the API, and ignored on the page', async (query, pointer, detail) => {
  const { status, json } = await admin.call('GET', `/audit?${query}`);
  expect([status, json.errors]).toMatchObject([400, [{ pointer, detail }]]);
  const page = await agent.get(`${site.url}/admin/audit?${query}`);
  expect([page.status, page.body.includes('User disabled')]).toEqual([200, true]);
});

test('R88 an export has an audit entry with its filters', async () => {
  await agent.get(`${site.url}/admin/api/audit?format=ndjson&${BOTH_DAYS}&who=t1`);
  const { json } = await admin.call('GET', '/audit?event=audit.exported&limit=1');
  expect(json.items).toMatchObject([
    {
      actor: { kind: 'administrator', name: 'admin@example.test' },
      facts: { who: 't1', from: `${FIRST}T00:00:00.000Z`, to: `${SECOND}T23:59:59.999Z` },
    },
  ]);
});

describe('filters by names', () => {
  const consent = { at: MIDNIGHT + DAY, event: 'connection.removed' } as const;
  beforeAll(async () => {
    const users = createUserStore({ store: storage.store, clock: Date.now });
    const issuer = site.sandbox.issuer;
    await users.noteSignIn({ id: 'p7', issuer, subject: 's-p7', name: 'Priya Nair', email: 'priya@example.test' });
    await users.noteSignIn({ id: 'a8', issuer, subject: 's-a8', name: 'Ada Moreau', email: 'ada@example.test' });
    // The id of one user is the beginning of another's name.
    await users.noteSignIn({ id: 'p9', issuer, subject: 's-p9', name: 'p7 Elsewhere' });
    const trail = createAuditTrail({ store: storage.store, clock: Date.now });
    const by = (id: string): AuditEntry => ({
      event: consent.event,
      actor: { kind: 'user', id },
      target: { kind: 'connection', id: 'p7/platform' },
      userId: 'p7',
    });
    await trail.append(by('a8'), consent.at);
    await trail.append({ ...by('p9'), target: { kind: 'connection', id: 'p9/platform' }, userId: 'p9' }, consent.at);
  });

  const within = `from=${dateOf(MIDNIGHT + DAY)}&to=${dateOf(MIDNIGHT + DAY)}`;
  test.each([
    ['the name of the target', 'whom=Priya%20Nair', ['a8']],
    ['the first letters of it', 'whom=priya', ['a8']],
    ['the e-mail address of the target', 'whom=Priya@example.test', ['a8']],
    ['the name of the actor', 'who=Ada%20Moreau', ['a8']],
    ['a name as a text', 'text=Nair', ['a8']],
    ['an e-mail address as a text', 'text=ada@example.test', ['a8']],
    ['names of actor and target', 'who=ada&whom=priya', ['a8']],
    ['a name and an event', 'event=connection.removed&whom=priya', ['a8']],
    ['an id alone', 'whom=p7', ['a8']],
    ['the name of an app', 'text=collaboration', ['p9', 'a8']],
    ['another name', 'who=Priya%20Nair', []],
  ])('%s', async (_name, query, wanted) => {
    const { json } = await admin.call('GET', `/audit?${within}&${query}`);
    expect((json.items as AuditEntry[]).map(({ actor }) => actor.id)).toEqual(wanted);
    const { body } = await agent.get(`${site.url}/admin/audit?${within}&${query}`);
    expect(rowsOf(body)).toHaveLength(wanted.length);
    const stream = await agent.get(`${site.url}/admin/api/audit?format=ndjson&${within}&${query}`);
    expect(stream.body.split('\n').filter((line) => line !== '')).toHaveLength(wanted.length);
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
    const { body } = await agent.get(`${site.url}/admin/audit?who=zoe`);
    expect([rowsOf(body).length, body.includes('More than 25 users')]).toEqual([25, true]);
    const found: unknown[] = [];
    for (let after = ''; ; ) {
      const { json } = await admin.call('GET', `/audit?who=zoe&limit=10&after=${encodeURIComponent(after)}`);
      found.push(...(json.items as AuditEntry[]).map(({ actor }) => actor.id));
      if (json.next === undefined) break;
      after = String(json.next);
    }
    expect(found).toEqual(
      numbers
        .slice(0, 25)
        .map((number) => `many-${number}`)
        .toReversed(),
    );
  });
});

test('a row names actor and target, and the user if that is neither', async () => {
  const { body } = await agent.get(`${site.url}/admin/audit?${BOTH_DAYS}`);
  expect(body).toContain(`/admin/api/audit?format=ndjson&amp;${BOTH_DAYS.replace('&', '&amp;')}"`);
  const [ended = '', used = '', disabled = ''] = rowsOf(body).map((row) => row.replace(/\s+/g, ' '));
  expect(ended).toMatch(/data-label="By"><span class="cut"[^>]*><bdi>An identity provider<\/bdi>/);
  expect(ended).toMatch(
    /data-label="Target" class="list-narrow-none">–<\/td> <td data-label="For"><a class="cut" href="\?whom=u2"/,
  );
  expect(used).toMatch(/<a class="cut" href="\?who=t1"[^>]*><bdi>reports<\/bdi><\/a>/);
  expect(used).toMatch(/<a class="cut" href="\?whom=platform"[^>]*><bdi>Collaboration platform<\/bdi><\/a>/);
  expect(used).toMatch(/data-label="For"><a class="cut" href="\?whom=u1" title="u1"><bdi>u1<\/bdi>/);
  for (const words of ['answered', '192.0.2.7', 'request-1', '<dt>apps</dt><dd><bdi class="whole">one, two<']) {
    expect(used).toContain(words);
  }
  expect(disabled).toMatch(/<a class="cut" href="\?who=u9"[^>]*><bdi>ann@example.test<\/bdi><\/a>/);
  expect(disabled).toMatch(/<a class="cut" href="\?whom=u1"[^>]*><bdi>Uma<\/bdi><\/a>/);
  expect(disabled).not.toContain('data-label="For"');
});
