/** Changes of relay tokens by API and by page: they need the current version, and apply to the next call. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { RELAY_WORDS } from '../../../src/gatehouse/relay/policy.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import type { UserAgent } from '../../support/browserless.ts';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { sendRequest } from '../../support/send-request.ts';
import { advanceClock } from '../../support/test-clock.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../grants/storage-access.ts';
import { type Administrator, bearer, codeOf, createAdministrator, PERMISSIVE_POLICY, relayThread } from './service.ts';

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let adminBrowser: UserAgent;
let csrfToken: string;
let userId: string;
beforeAll(async () => {
  site = await startSite({ sandbox: { accessTokenSeconds: 3_600 } });
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  ({ agent: adminBrowser } = await signIn(site, 'admin@example.test'));
  ({ csrfToken, userId } = await sessionOf(site, adminBrowser));
});
afterAll(async () => {
  await storage.close();
  await site.close();
});

const statusOf = async (token: string) => (await relayThread(site, token, { 'gatehouse-user': userId })).status;
/** A change names every member. */
const WHOLE_POLICY = {
  ...PERMISSIVE_POLICY,
  ...{ assertUser: false, fullScope: false, acceptIdTokens: false, binCallsPerMonth: null },
};
const changeToken = (id: string, body: unknown) => admin.call('PUT', `/relay-tokens/${id}`, body);

/** Submits a form as a browser does. @param path of the form, below the relay tokens */
const submitForm = (path: string, form: Record<string, string | string[]>) => {
  const body = new URLSearchParams();
  for (const [name, value] of Object.entries({ _csrf: csrfToken, ...form })) {
    const values = typeof value === 'string' ? [value] : value;
    for (const text of values) body.append(name, text);
  }
  return adminBrowser.request(`${site.url}/admin/relay-tokens/${path}`, {
    method: 'POST',
    headers: { accept: 'text/html' },
    body,
  });
};
/** Returns what the form of a token says that it shows. */
const readBase = async (id: string, form = 'edit') => {
  const { body } = await adminBrowser.get(`${site.url}/admin/relay-tokens/${id}/${form}`);
  return / name="base" value="([^"]+)"/.exec(body)?.[1] ?? '';
};
const FORM = {
  name: 'By page',
  scopes: ['threads:read'],
  apps: ['platform'],
  users: 'all',
  networks: '',
  expiry: 'keep',
};

test('R81 a change of each member of the policy applies to the next call', async () => {
  const { id, version, token } = await admin.createRelayToken({ assertUser: true });
  const policy = { ...WHOLE_POLICY, assertUser: true };
  expect(await statusOf(token)).toBe(200);
  let currentVersion = version;
  for (const [changes, status] of [
    [{ scopes: ['bin:read'] }, 403],
    [{ apps: [] }, 403],
    [{ users: ['uOtherUser'] }, 403],
    [{ users: [userId] }, 200],
    [{ networks: ['10.0.0.0/8'] }, 403],
    [{ networks: [] }, 200],
    [{ assertUser: false }, 403],
  ] as const) {
    const { status: putStatus, json } = await changeToken(id, { ...policy, ...changes, version: currentVersion });
    expect([putStatus, json]).toMatchObject([200, changes]);
    expect(await statusOf(token), JSON.stringify(changes)).toBe(status);
    currentVersion = json.version as number;
  }

  const changed = await changeToken(id, {
    ...policy,
    name: 'Renamed',
    expiresAt: new Date(Date.now() + 60_000).toISOString(),
    version: currentVersion,
  });
  expect([changed.status, changed.json.name]).toEqual([200, 'Renamed']);
  advanceClock(60);
  expect(await statusOf(token)).toBe(401);

  currentVersion = changed.json.version as number;
  // With a later expiry, the secret of the expired token is valid again.
  expect((await changeToken(id, { ...policy, version: currentVersion })).status).toBe(200);
  expect(await statusOf(token)).toBe(200);
});

test('refuses a change of an older version, without a version, of an unknown token, or with a fault', async () => {
  const { id, version } = await admin.createRelayToken();
  const changed = await changeToken(id, { ...WHOLE_POLICY, name: 'First', version });
  expect(changed.status).toBe(200);
  const late = await changeToken(id, { ...WHOLE_POLICY, name: 'Late', version });
  expect([late.status, late.json.code]).toEqual([409, 'version_conflict']);

  const currentVersion = changed.json.version;
  for (const [faultyMember, pointer, rule] of [
    [{ apps: ['nowhere'] }, '#/apps/0', 'unknown_app'],
    [{ networks: ['10/8'] }, '#/networks/0', 'network'],
    [{ scopes: [] }, '#/scopes', 'invalid'],
    [{ expiresAt: '2020-01-01T00:00:00Z' }, '#/expiresAt', 'invalid'],
    [{ secret: 'x' }, '#', 'invalid'],
  ] as const) {
    const body = { ...WHOLE_POLICY, version: currentVersion, ...faultyMember };
    const { status, json } = await changeToken(id, body);
    expect([status, json.errors]).toMatchObject([400, [{ pointer, rule }]]);
  }

  expect((await changeToken(id, WHOLE_POLICY)).status).toBe(400);
  expect((await changeToken('AAAAAAAAAAA', { ...WHOLE_POLICY, version: 1 })).status).toBe(404);

  const stored = (await admin.call('GET', `/relay-tokens/${id}`)).json;
  expect(stored).toMatchObject({ name: 'First', version: currentVersion });
  const { json } = await admin.call('GET', `/audit?event=relay_token.changed&target=${id}`);
  expect(json.items).toMatchObject([
    { outcome: 'not_done', code: 'version_conflict' },
    { target: { id }, facts: { name: 'Late' } },
    {},
  ]);
});

test('R81 refuses a change that leaves out a member, and changes nothing', async () => {
  const { id, version } = await admin.createRelayToken({ binCallsPerMonth: 10 });
  const stored = (await admin.call('GET', `/relay-tokens/${id}`)).json;
  const whole: Record<string, unknown> = { ...WHOLE_POLICY, binCallsPerMonth: 10, version };
  for (const name of Object.keys(whole)) {
    const { [name]: _, ...body } = whole;
    const { status, json } = await changeToken(id, body);
    expect([status, json.errors]).toMatchObject([400, [{ pointer: `#/${name}` }]]);
  }
  const { networks: _networks, binCallsPerMonth: _binCalls, ...withoutTwo } = whole;
  expect((await changeToken(id, withoutTwo)).json.errors).toMatchObject([
    { pointer: '#/networks', detail: expect.stringMatching(/^Add this member/) },
    { pointer: '#/binCallsPerMonth', detail: expect.stringMatching(/^Add this member/) },
  ]);
  expect((await admin.call('GET', `/relay-tokens/${id}`)).json).toEqual(stored);
  expect((await changeToken(id, { ...whole, binCallsPerMonth: null })).json.binCallsPerMonth).toBeNull();
});

test('the page fills in and saves the form, and keeps the expiry if no days are entered', async () => {
  const { id } = await admin.createRelayToken({ users: [userId], networks: ['10.0.0.0/8'] });
  const page = (await adminBrowser.get(`${site.url}/admin/relay-tokens/${id}/edit`)).body;
  for (const part of ['value="reports"', '>admin@example.test</textarea>', '>10.0.0.0/8</textarea>']) {
    expect(page).toContain(part);
  }

  const response = await submitForm(id, { ...FORM, base: await readBase(id) });
  expect([response.status, response.body]).toEqual([200, expect.stringContaining('Saved.')]);
  const saved = (await admin.call('GET', `/relay-tokens/${id}`)).json;
  expect(saved).toMatchObject({
    name: 'By page',
    scopes: ['threads:read'],
    users: 'all',
    networks: [],
    assertUser: false,
  });
  expect(Date.parse(String(saved.expiresAt))).toBe(Date.parse(PERMISSIVE_POLICY.expiresAt));

  await submitForm(id, { ...FORM, expiry: '30', base: await readBase(id) });
  const { expiresAt } = (await admin.call('GET', `/relay-tokens/${id}`)).json;
  const inThirtyDays = Date.now() + 30 * 86_400_000;
  expect(Math.abs(Date.parse(String(expiresAt)) - inThirtyDays)).toBeLessThan(60_000);
});

test('the forms of a token describe each flag', async () => {
  const { id } = await admin.createRelayToken();
  expect(RELAY_WORDS.flags.map(({ name }) => name)).toEqual(['assertUser', 'fullScope', 'acceptIdTokens']);
  for (const path of ['relay-tokens/new', `relay-tokens/${id}/edit`]) {
    const { body } = await adminBrowser.get(`${site.url}/admin/${path}`);
    for (const { title, description } of RELAY_WORDS.flags) {
      expect(title).toMatch(/^\p{Lu}.{15,}$/u);
      expect(description).toMatch(/.{30,}\.$/);
      expect(body).toContain(title);
      expect(body).toContain(description);
    }
  }
});

test('the page shows faults with the entered values', async () => {
  const { id } = await admin.createRelayToken();
  const base = await readBase(id);
  const faulty = await submitForm(id, { ...FORM, name: 'Typed name', networks: '10.0.0.1/8', base });
  expect([faulty.status, faulty.body]).toEqual([400, expect.stringContaining('write 10.0.0.0/8')]);
  expect(faulty.body).toContain('value="Typed name"');
});

test.each(['1.5', '721', '', ' ', 'one', '-1', '1e1', '9999999999'])(
  'R106 refuses to rotate with %j hours of overlap',
  async (hours) => {
    const { id, token } = await admin.createRelayToken({ assertUser: true });
    const page = await submitForm(`${id}/rotate`, { overlapHours: hours });
    expect([page.status, page.body]).toEqual([400, expect.stringMatching(/<title>Error: .*id="overlapHours-fault"/s)]);
    expect(page.body).toContain('Enter a whole number of hours from 0 to 720.');
    expect(await statusOf(token)).toBe(200);
    expect((await admin.call('GET', `/relay-tokens/${id}`)).json.overlapEndsAt).toBeNull();
  },
);

test('the previous secret stays valid for the hours of overlap that were entered', async () => {
  const { id, token } = await admin.createRelayToken({ assertUser: true });
  const rotated = await submitForm(`${id}/rotate`, { overlapHours: '720', base: await readBase(id, 'rotate') });
  expect(rotated.body).toMatch(/gthr_[0-9A-Za-z]{60}/);
  expect(await statusOf(token)).toBe(200);
  const { rotatedAt, overlapEndsAt } = (await admin.call('GET', `/relay-tokens/${id}`)).json;
  expect(Date.parse(String(overlapEndsAt)) - Date.parse(String(rotatedAt))).toBe(720 * 3_600_000);
});

test('the timeline of a token shows its use by the hour for thirty days', async () => {
  const { id } = await admin.createRelayToken();
  // Each hour as the beginning of its ISO time, such as "2026-11-30T02". The latest hour comes first.
  const hours = Array.from({ length: 30 * 24 }, (_, hoursAgo) =>
    new Date(Date.now() - hoursAgo * 3_600_000).toISOString().slice(0, 13),
  );
  for (const [day, hoursOfDay] of Map.groupBy(hours, (hour) => hour.slice(0, 10))) {
    const uses = Object.fromEntries(hoursOfDay.map((hour) => [hour, { 'threads:read succeeded platform': 1 }]));
    await storage.store.write([{ put: keys.relayUses('token', id, day), value: JSON.stringify(uses) }]);
  }

  const listedHours: string[] = [];
  let cursor: unknown;
  do {
    const after = cursor === undefined ? '' : `&after=${encodeURIComponent(String(cursor))}`;
    const { json } = await admin.call('GET', `/relay-tokens/${id}/timeline?kind=relay&limit=200${after}`);
    listedHours.push(...(json.items as { at: string }[]).map(({ at }) => at.slice(0, 13)));
    cursor = json.next;
  } while (cursor !== undefined);
  expect(listedHours).toEqual(hours);
});

test('R88 refuses a change without the CSRF token, or with a relay token instead of an admin token', async () => {
  const { id, version, token } = await admin.createRelayToken();
  const forged = await submitForm(id, { ...FORM, _csrf: 'forged', version: String(version) });
  expect(forged.status).toBe(403);

  const url = `${site.url}/admin/api/relay-tokens/${id}`;
  const body = JSON.stringify({ ...WHOLE_POLICY, name: 'Mine', version });
  const response = await sendRequest(url, {
    method: 'PUT',
    headers: { ...bearer(token), 'content-type': 'application/json' },
    body,
  });
  expect([response.status, codeOf(response)]).toMatchObject([401, expect.any(String)]);
  expect((await admin.call('GET', `/relay-tokens/${id}`)).json.version).toBe(version);
});
