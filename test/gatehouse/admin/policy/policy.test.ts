/** The policy check: page and API give the results of the relay, and name the rule that refuses. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { UserAgent } from '../../../support/browserless.ts';
import { signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';
import { openStorageOf, type StorageAccess, sessionOf } from '../../grants/storage-access.ts';
import { type Administrator, createAdministrator } from '../../relay/service.ts';

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let agent: UserAgent;
let userId: string;
/** Ids by name: `strict` accepts only proven users, `open` has every permission, `bins` only looks up BINs. */
const tokens: Record<string, string> = {};
beforeAll(async () => {
  site = await startSite();
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  ({ agent } = await signIn(site, 'admin@example.test'));
  userId = (await sessionOf(site, (await signIn(site)).agent)).userId;
  const all = { assertUser: true, fullScope: true, acceptIdTokens: true };
  tokens.strict = (await admin.createRelayToken({ name: 'Strict' })).id;
  tokens.open = (await admin.createRelayToken({ name: 'Open', ...all })).id;
  tokens.narrow = (await admin.createRelayToken({ name: 'Narrow', routes: ['thread'] })).id;
  tokens.bins = (await admin.createRelayToken({ name: 'Bins', users: 'none', apps: [], scopes: ['bin:read'] })).id;
});
afterAll(async () => {
  await storage.close();
  await site.close();
});

const CALL = { scope: 'threads:read', app: 'platform', address: '127.0.0.1' };
const EXCHANGE = { ...CALL, scope: 'token:exchange' };

/** The last value is the rule that refuses the call. */
describe.each([
  ['a proven user', 'strict', CALL, undefined],
  ['a user without proof', 'strict', { ...CALL, proof: 'none' }, 'assertUser'],
  ['a user without proof, if that is allowed', 'open', { ...CALL, proof: 'none' }, undefined],
  ['an ID token', 'strict', { ...EXCHANGE, proof: 'id_token' }, 'acceptIdTokens'],
  ['an ID token, if that is allowed', 'open', { ...EXCHANGE, proof: 'id_token' }, undefined],
  ['an ID token, which counts only in an exchange', 'strict', { ...CALL, proof: 'id_token' }, undefined],
  ['a token that is not narrowed', 'strict', { ...EXCHANGE, narrowingUnavailable: true }, 'fullScope'],
  ['a token that is not narrowed, if that is allowed', 'open', { ...EXCHANGE, narrowingUnavailable: true }, undefined],
  ['a call that is never narrowed', 'strict', { ...CALL, narrowingUnavailable: true }, undefined],
  ['a BIN lookup, which needs neither user nor app', 'bins', { ...CALL, scope: 'bin:read' }, undefined],
  ['a scope that the token lacks', 'bins', CALL, 'scopes'],
  ['a network that the token may not be used from', 'strict', { ...CALL, address: '10.0.0.1' }, 'networks'],
] as const)('%s', (_name, token, call, rule) => {
  test('by API', async () => {
    const { status, json } = await admin.call('POST', '/policy/explain', {
      relayToken: tokens[token],
      userId,
      ...call,
    });
    const refused = { allowed: false, rule, detail: expect.stringContaining(`Rule ${rule}`) };
    expect([status, json]).toMatchObject([200, rule === undefined ? { allowed: true } : refused]);
    const rules = json.rules as { rule: string; result: string }[];
    const firstFailed = rules.find(({ result }) => result === 'failed');
    expect(firstFailed?.rule).toBe(rule);
  });

  test('by page, which keeps the entered values', async () => {
    const { narrowingUnavailable = false, ...callFields } = { narrowingUnavailable: undefined, ...call };
    const fields: Record<string, string> = { token: String(tokens[token]), user: userId, ...callFields };
    if (narrowingUnavailable) fields.narrowingUnavailable = 'yes';

    const page = await agent.get(`${site.url}/admin/policy?${new URLSearchParams(fields)}`);

    const resultTitle = /id="result-title">(.*?)<\/h2>/s.exec(page.body)?.[1];
    expect(resultTitle).toContain(rule === undefined ? 'Allowed' : `by the rule <code>${rule}</code>`);
    // A failed rule shows only the reason, and not also the words of the rule.
    const failedRows = page.body.matchAll(/<li class="check-failed">.*?class="check-words">(.*?)\n/gs);
    const failedRules = [...failedRows].map(([, words]) => words);
    expect(failedRules.length > 0).toBe(rule !== undefined);
    for (const words of failedRules)
      expect(words).toMatch(/^<span class="visually-hidden">Failed: <\/span><span class="check-detail">/);
    const form = page.forms.find(({ names }) => names.includes('scope'));
    expect(Object.fromEntries(form?.fields ?? [])).toEqual({ proof: 'assertion', route: '', ...fields });
  });
});

test('shows no result if the token or the address is missing or invalid', async () => {
  for (const query of ['', `?token=${tokens.strict}`, '?address=10.0.0.1', `?token=${tokens.strict}&address=%20`]) {
    const { status, body } = await agent.get(`${site.url}/admin/policy${query}`);
    expect([query, status, body.includes('result-title')]).toEqual([query, 200, false]);
  }
  const invalidChoices = `?token=${tokens.strict}&address=127.0.0.1&app=platform&scope=nothing&proof=nothing&user=%20${userId}%20`;
  const page = await agent.get(`${site.url}/admin/policy${invalidChoices}`);
  expect(page.body).toContain('Allowed');
  const form = page.forms.find(({ names }) => names.includes('scope'));
  expect(Object.fromEntries(form?.fields ?? [])).toMatchObject({
    ...{ scope: 'threads:read', proof: 'assertion', user: userId },
  });
});

interface CheckedRule {
  rule?: string;
  check: string;
  result: string;
  detail?: string;
}

async function explain(question: Record<string, unknown>) {
  const { status, json } = await admin.call('POST', '/policy/explain', { ...CALL, ...question });
  expect(status).toBe(200);
  return json as unknown as { allowed: boolean; rule?: string; userId: string | null } & Record<
    'rules' | 'conditions',
    CheckedRule[]
  >;
}

test('every rule has a result, also after the first one that failed', async () => {
  const { rule, rules } = await explain({
    ...{ relayToken: tokens.bins, userId: 'nobody', proof: 'none', address: '10.0.0.1' },
  });
  expect(rule).toBe('networks');
  expect(rules.map((one) => [one.rule, one.result])).toEqual([
    ['expiresAt', 'passed'],
    ['networks', 'failed'],
    ['scopes', 'failed'],
    ['apps', 'failed'],
    ['serviceAccount', 'not_applicable'],
    ['serviceAccount', 'not_applicable'],
    ['acceptIdTokens', 'not_applicable'],
    ['assertUser', 'failed'],
    ['users', 'failed'],
    ['users', 'failed'],
    ['users', 'not_applicable'],
    ['routes', 'not_applicable'],
    ['fullScope', 'not_applicable'],
  ]);
  for (const { result, detail, check } of rules) {
    expect([check, result === 'failed']).toEqual([expect.stringMatching(/^The .+\.$/), detail !== undefined]);
  }
  // The rule about users failed for two reasons.
  expect(rules.flatMap(({ rule: name, detail }) => (name === 'users' && detail ? [detail] : []))).toEqual([
    expect.stringContaining('may not act for this user'),
    expect.stringContaining('there is no user with this id'),
  ]);
});

test('a response has the conditions in addition to the policy: app, platform, and connection of the user', async () => {
  const resultsOf = (conditions: CheckedRule[]) => conditions.map(({ result }) => result);
  const call = { relayToken: tokens.open, userId };
  expect(resultsOf((await explain(call)).conditions)).toEqual(['passed', 'passed', 'not_applicable', 'passed']);
  expect(resultsOf((await explain({ ...call, app: 'unknown' })).conditions)).toEqual([
    ...['failed', 'not_applicable', 'not_applicable', 'failed'],
  ]);
  expect(resultsOf((await explain({ ...call, scope: 'bin:read' })).conditions)).toEqual([
    ...['not_applicable', 'not_applicable', 'not_applicable', 'not_applicable'],
  ]);
  const failure = { cause: 'grant_refused', since: Date.now(), failures: 1, retryAt: 0 } as const;
  await storage.changeGrant(userId, () => ({ failure: { ...failure, kind: 'reconnect_needed' } }));
  const [, , , ofConnection] = (await explain({ ...call, scope: 'token:exchange' })).conditions;
  expect(ofConnection).toMatchObject({ result: 'failed', detail: expect.stringContaining('must reconnect') });
  await storage.changeGrant(userId, () => ({ failure: undefined }));
});

test('accepts a user by e-mail address, and an unknown one is a fault of the field', async () => {
  const call = { ...CALL, relayToken: tokens.open };
  for (const text of ['user@example.test', ' USER@Example.test ']) {
    expect(await explain({ ...call, userId: text })).toMatchObject({ allowed: true, userId });
  }
  const unknown = await admin.call('POST', '/policy/explain', { ...call, userId: 'use@example.test' });
  expect([unknown.status, unknown.json.errors]).toMatchObject([
    ...[400, [{ pointer: '#/userId', rule: 'unknown_user', detail: expect.stringContaining('signed in') }]],
  ]);
  const fields = { token: String(tokens.open), address: '127.0.0.1', app: 'platform', user: 'use@example.test' };
  const page = await agent.get(`${site.url}/admin/policy?${new URLSearchParams(fields)}`);
  expect([page.status, page.body]).toEqual([200, expect.stringContaining('id="user-fault"')]);
  expect(page.body).toContain('value="use@example.test"');
});

describe.each([
  ['threads:read', {}, 'Incomplete: name a user or a service account.'],
  ['api:call', { route: 'current-thread' }, 'Incomplete: name a user or a service account.'],
  ['token:exchange', {}, 'Incomplete: name a user.'],
  ['connect_links:create', {}, 'Incomplete: name a user.'],
] as const)('%s without a subject', (scope, fields, detail) => {
  const question = { ...CALL, scope, ...fields };

  test('is incomplete and never allowed, by API', async () => {
    const answer = await explain({ relayToken: tokens.open, ...question });
    expect(answer).toMatchObject({ allowed: false, detail });
    expect(answer.rule).toBeUndefined();
    // A rule that refuses every such call is named all the same.
    expect(await explain({ relayToken: tokens.bins, ...question })).toMatchObject({ allowed: false, rule: 'scopes' });
    expect(await explain({ relayToken: tokens.open, ...question, userId })).toMatchObject({ allowed: true });
  });

  test('is incomplete and never allowed, by page', async () => {
    const query = new URLSearchParams({ token: String(tokens.open), ...question });
    const { body } = await agent.get(`${site.url}/admin/policy?${query}`);
    const resultTitle = /id="result-title">(.*?)<\/h2>/s.exec(body)?.[1];
    expect(resultTitle).toContain(detail);
    expect(resultTitle).not.toContain('Allowed');
  });
});

test('a call that needs no subject is complete without one', async () => {
  for (const scope of ['connections:read', 'bin:read', 'api:call'])
    expect(await explain({ relayToken: tokens.open, scope })).toMatchObject({ allowed: true });
  const noApp = await explain({ relayToken: tokens.open, scope: 'api:call', app: undefined });
  expect(noApp).toMatchObject({ allowed: false, detail: 'Incomplete: name a connected app.' });
});

test('a service account is no user, for a call that acts for one', async () => {
  const question = { relayToken: tokens.open, scope: 'token:exchange', serviceAccount: 'sa0' };
  expect(await explain(question)).toMatchObject({ allowed: false });
});

test('a user and a service account are not allowed together, as in the call', async () => {
  const question = { ...CALL, serviceAccount: 'sa0' };
  const { status, json } = await admin.call('POST', '/policy/explain', {
    ...question,
    userId,
    relayToken: tokens.open,
  });
  expect([status, json.errors]).toMatchObject([
    400,
    [{ pointer: '#/serviceAccount', detail: expect.stringContaining('not both') }],
  ]);
  const page = await agent.get(
    `${site.url}/admin/policy?${new URLSearchParams({ ...question, user: userId, token: String(tokens.open) })}`,
  );
  expect(page.body).toContain('Name a user or a service account, not both.');
});

test('the page asks for a route, and names the rule that refuses it', async () => {
  const fields = { ...CALL, token: String(tokens.narrow), scope: 'api:call', route: 'current-thread', user: userId };
  const page = await agent.get(`${site.url}/admin/policy?${new URLSearchParams(fields)}`);
  expect(/id="result-title">(.*?)<\/h2>/s.exec(page.body)?.[1]).toContain('by the rule <code>routes</code>');
  const form = page.forms.find(({ names }) => names.includes('scope'));
  expect(Object.fromEntries(form?.fields ?? [])).toMatchObject({ route: 'current-thread' });
  const undeclared = await agent.get(
    `${site.url}/admin/policy?${new URLSearchParams({ ...fields, route: 'no-such' })}`,
  );
  expect(undeclared.body).toContain('The app declares no route with this name.');
});

test('accepts addresses as proxies write them, and anything else is a fault of the field', async () => {
  const call = { ...CALL, relayToken: tokens.open, userId };
  for (const address of ['127.0.0.1:4711', '::ffff:127.0.0.1'])
    expect(await explain({ ...call, address })).toMatchObject({ allowed: true });
  // The audit trail has "unknown" if a proxy does not name the address of the caller.
  for (const address of ['203.0.113.5:4711', '[2001:db8::1]', 'unknown'])
    expect(await explain({ ...call, address })).toMatchObject({ allowed: false, rule: 'networks' });
  for (const address of ['notanip', '203.0.113.0/24', '203.0.113.256', '']) {
    const { status, json } = await admin.call('POST', '/policy/explain', { ...call, address });
    expect([address, status, json.errors]).toMatchObject([address, 400, [{ pointer: '#/address' }]]);
  }
  const fields = { token: String(tokens.open), address: 'notanip', app: 'platform', user: userId };
  const page = await agent.get(`${site.url}/admin/policy?${new URLSearchParams(fields)}`);
  expect([page.status, page.body]).toEqual([200, expect.stringContaining('id="address-fault"')]);
  expect(page.body).not.toContain('id="result-title"');
});

test('a service account needs no app, and an unknown one is reported', async () => {
  const call = { relayToken: tokens.open, scope: 'threads:read', address: '127.0.0.1', serviceAccount: 'sa0' };
  expect((await admin.call('POST', '/policy/explain', call)).json).toMatchObject({ rule: 'serviceAccount' });
  const unknownToken = await admin.call('POST', '/policy/explain', { ...call, relayToken: 'AAAAAAAAAAA' });
  expect([unknownToken.status, unknownToken.json.detail]).toEqual([404, 'There is no relay token with this id.']);
});
