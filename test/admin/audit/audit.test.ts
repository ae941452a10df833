/** The audit trail in the administration: by event, actor, target, time and text, on the page, as JSON and as NDJSON. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { AuditEntry } from '../../../src/audit/kinds.ts';
import { createAuditTrail } from '../../../src/audit/trail.ts';
import { openVaultDesk, type VaultDesk } from '../../grants/vault-desk.ts';
import { type Administrator, administratorOf } from '../../relay/service.ts';
import type { UserAgent } from '../../support/browserless.ts';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';

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
      facts: { route: 'threads:read', apps: ['one', 'two'] },
    },
  },
  ended: { at: MIDNIGHT + 60_000, entry: { event: 'session.ended', actor: { kind: 'provider' }, userId: 'u2' } },
};

let site: TestSite;
let desk: VaultDesk;
let admin: Administrator;
let agent: UserAgent;
beforeAll(async () => {
  site = await startSite();
  desk = await openVaultDesk(site);
  admin = await administratorOf(site, desk);
  ({ agent } = await signIn(site, 'admin@example.test'));
  const trail = createAuditTrail({ store: desk.store, clock: Date.now });
  for (const { at, entry } of Object.values(ENTRIES)) await trail.append(entry, at);
});
afterAll(async () => {
  await desk.close();
  await site.close();
});

const NAMES = new Map(Object.entries(ENTRIES).map(([name, { entry }]) => [entry.event as string, name]));
const BOTH_DAYS = `from=${FIRST}&to=${SECOND}`;

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

  test('as NDJSON, the oldest first', async () => {
    const { headers, body } = await agent.get(`${site.url}/admin/api/audit?format=ndjson&${query}`);
    expect(headers.get('content-disposition')).toBe('attachment; filename="audit.ndjson"');
    const events = body.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line).event]));
    expect(events.map((event) => NAMES.get(event))).toEqual(wanted.toReversed());
  });

  test('on the page', async () => {
    const { body } = await agent.get(`${site.url}/admin/audit?${query}`);
    const rows = body.split('<th scope="row">').slice(1);
    const words = { ended: 'Session ended', used: 'Relay used by a service', disabled: 'User disabled' };
    expect(rows.map((row) => row.split('<')[0])).toEqual(wanted.map((name) => words[name as keyof typeof words]));
    expect(body.includes('No entries match.')).toBe(wanted.length === 0);
  });
});

test('q is the same as text, and pages go on where the last one ended', async () => {
  const { json: found } = await admin.call('GET', `/audit?${BOTH_DAYS}&q=answered`);
  expect(found.items).toMatchObject([{ event: 'relay.used' }]);
  const { json: first } = await admin.call('GET', `/audit?${BOTH_DAYS}&limit=2`);
  expect(first.items).toMatchObject([{ event: 'session.ended' }, { event: 'relay.used' }]);
  const next = encodeURIComponent(String(first.next));
  const { json: last } = await admin.call('GET', `/audit?${BOTH_DAYS}&limit=2&after=${next}`);
  expect([last.items, last.next]).toMatchObject([[{ event: 'user.disabled' }], undefined]);
  const page = await agent.get(`${site.url}/admin/audit?${BOTH_DAYS}&after=${next}`);
  expect(page.body.split('<th scope="row">').slice(1)).toEqual([expect.stringMatching(/^User disabled</)]);
});

test.each([
  ['event=nothing.like.it', '#/event', 'There is no such event.'],
  ['from=soon', '#/from', 'Give a date as 2026-11-21, or a time as 2026-11-21T08:00:00Z.'],
  ['to=2026-13-01', '#/to', 'Give a date as 2026-11-21, or a time as 2026-11-21T08:00:00Z.'],
])('%s is refused by API, and left out of account on the page', async (query, pointer, detail) => {
  const { status, json } = await admin.call('GET', `/audit?${query}`);
  expect([status, json.errors]).toMatchObject([400, [{ pointer, detail }]]);
  const page = await agent.get(`${site.url}/admin/audit?${query}`);
  expect([page.status, page.body.includes('User disabled')]).toEqual([200, true]);
});

test('R88 an export is in the trail with what it was narrowed to', async () => {
  await agent.get(`${site.url}/admin/api/audit?format=ndjson&${BOTH_DAYS}&who=t1`);
  const { json } = await admin.call('GET', '/audit?event=audit.exported&limit=1');
  expect(json.items).toMatchObject([
    {
      actor: { kind: 'administrator', name: 'admin@example.test' },
      facts: { who: 't1', from: `${FIRST}T00:00:00.000Z`, to: `${SECOND}T23:59:59.999Z` },
    },
  ]);
});

test('an entry on the page names actor and target, and the user only where that is neither', async () => {
  const { body } = await agent.get(`${site.url}/admin/audit?${BOTH_DAYS}`);
  expect(body).toContain(`/admin/api/audit?format=ndjson&amp;${BOTH_DAYS.replace('&', '&amp;')}"`);
  const [ended = '', used = '', disabled = ''] = body
    .split('<th scope="row">')
    .slice(1)
    .map((row) => row.replace(/\s+/g, ' '));
  expect(ended).toContain('data-label="Actor"><bdi>An identity provider</bdi>');
  expect(ended).toMatch(/data-label="Target"> <span> – <span class="fine">for <a href="\?whom=u2">u2</);
  expect(ended).toMatch(/data-label="Address"> –/);
  expect(used).toContain('<a href="?who=t1"><bdi>reports</bdi></a>');
  expect(used).toMatch(
    /<a href="\?whom=platform"><bdi>platform<\/bdi><\/a> <span class="fine">for <a href="\?whom=u1">u1</,
  );
  for (const words of ['answered', '192.0.2.7', 'request-1', '<dt>apps</dt><dd><bdi class="whole">one, two<']) {
    expect(used).toContain(words);
  }
  expect(disabled).toContain('<a href="?who=u9"><bdi>ann@example.test</bdi></a>');
  expect(disabled).toContain('<a href="?whom=u1"><bdi>Uma</bdi></a>');
  expect(disabled).not.toContain('>for <');
});
