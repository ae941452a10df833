/** The rules of the attention list, with values just below and at their limits. */
import { describe, expect, test } from 'vitest';
import { secretAge, stateOf } from '../../../../src/gatehouse/admin/credential.ts';
import { appAttention } from '../../../../src/gatehouse/admin/overview/attention/apps.ts';
import { connectionAttention } from '../../../../src/gatehouse/admin/overview/attention/connections.ts';
import { binAttention, keyAttention } from '../../../../src/gatehouse/admin/overview/attention/data.ts';
import { tokenAttention, webhookAttention } from '../../../../src/gatehouse/admin/overview/attention/services.ts';
import type { AdminParts } from '../../../../src/gatehouse/admin/parts.ts';

const NOW = Date.UTC(2026, 10, 21, 12, 0);
const HOUR = 3_600_000;
const DAY = 86_400_000;
const clock = () => NOW;
const publicUrl = { href: 'https://gatehouse.example' } as AdminParts['publicUrl'];

/** Stubs the modules: each rule reads only a few members. */
const parts = (some: object) => ({ clock, publicUrl, ...some }) as unknown as AdminParts;

test.each([
  [-1, 'expired'],
  [0, 'expired'],
  [1, 'expiring'],
  [14 * DAY, 'expiring'],
  [14 * DAY + 1, 'active'],
])('a token that expires in %i ms is %s', (remaining, state) => {
  expect(stateOf({ expiresAt: NOW + remaining }, NOW)).toBe(state);
});

test.each([
  [{ setAt: null }, { days: undefined, isOld: false, expiry: undefined }],
  [{ setAt: 180 * DAY + HOUR }, { days: 180, isOld: false, expiry: undefined }],
  [{ setAt: 181 * DAY }, { days: 181, isOld: true, expiry: undefined }],
  [
    { setAt: DAY, left: 14 * DAY },
    { days: 1, isOld: false, expiry: 'soon' },
  ],
  [
    { setAt: DAY, left: 14 * DAY + 1 },
    { days: 1, isOld: false, expiry: undefined },
  ],
  [
    { setAt: DAY, left: 0 },
    { days: 1, isOld: false, expiry: 'expired' },
  ],
])('a secret %j has the age %j', ({ setAt, left }: { setAt: number | null; left?: number }, age) => {
  const iso = (time: number) => new Date(time).toISOString();
  const expiresAt = left === undefined ? null : iso(NOW + left);
  expect(secretAge({ setAt: setAt === null ? null : iso(NOW - setAt), expiresAt }, NOW)).toEqual(age);
});

describe('connected apps', () => {
  const app = { id: 'crm', name: 'CRM', callbackUrls: [`${publicUrl.href}/oauth/callback/crm`], clientSecret: 'x' };
  const found = (some: { app?: object; findings?: object[]; secret?: { setAt?: number; expiresAt?: number } }) => {
    const changed = { ...app, ...some.app };
    const { setAt: secretSetAt, expiresAt: secretExpiresAt } = some.secret ?? {};
    return appAttention(
      parts({
        connectedApps: {
          apps: { list: () => [changed] },
          registry: { list: async () => [{ app: changed, secretSetAt, secretExpiresAt }] },
          checks: { read: async () => some.findings && { at: NOW - 5 * 60_000, findings: some.findings } },
        },
      }),
    )();
  };
  const problem = { check: 'keys', result: 'problem', detail: 'The keys cannot be read.' };

  test.each([
    ['as it should be', {}],
    ['with a check that found nothing', { findings: [{ ...problem, result: 'fine' }] }],
    ['that is disabled, whatever else', { app: { disabled: true, callbackUrls: [] }, findings: [problem] }],
    ['that is disabled, with an old secret', { app: { disabled: true }, secret: { setAt: NOW - 400 * DAY } }],
    ['without a secret', { app: { clientSecret: undefined }, secret: { setAt: NOW - 400 * DAY } }],
  ])('no attention: %s', async (_name, some) => {
    expect(await found(some)).toEqual([]);
  });

  const secretOf = (severity: string, words: string) => ({
    ...{ kind: 'client_secret', severity, text: `Client secret of CRM ${words}`, action: 'Renew' },
    detail: 'Create a new one at the provider and enter it here.',
    path: '/connected-apps/crm#clientSecret',
  });
  test.each<[string, Parameters<typeof found>[0], object]>([
    [
      'without its callback URL',
      { app: { callbackUrls: [] }, findings: [problem] },
      {
        ...{ kind: 'app_unusable', severity: 'bad', text: 'CRM cannot be used: its callback URL is missing' },
        ...{ detail: 'https://gatehouse.example/oauth/callback/crm', path: '/connected-apps/crm', action: 'Open' },
      },
    ],
    [
      'whose check failed',
      { findings: [{ ...problem, result: 'fine' }, problem] },
      {
        ...{ kind: 'app_check_failed', severity: 'bad', text: 'The check of CRM failed 5 min ago' },
        ...{ detail: 'The keys cannot be read.', path: '/connected-apps/crm/check', action: 'Show' },
      },
    ],
    ['whose secret is old', { secret: { setAt: NOW - 1_200 * DAY } }, secretOf('notice', 'is 1,200 days old')],
    ['whose secret ends', { secret: { expiresAt: NOW + 3 * DAY } }, secretOf('notice', 'expires in 3 days')],
    ['whose secret has ended', { secret: { expiresAt: NOW - 2 * DAY } }, secretOf('bad', 'expired 2 days ago')],
  ])('one %s', async (_name, some, wanted) => {
    expect(await found(some)).toEqual([{ ...wanted, since: null }]);
  });

  test('an app that cannot be opened', async () => {
    const connectedApps = {
      apps: { list: () => [] },
      registry: { list: async () => [{ id: 'lost', unreadable: true }] },
    };
    expect(await appAttention(parts({ connectedApps }))()).toEqual([
      {
        ...{ kind: 'app_unreadable', severity: 'bad', text: 'The stored data of lost cannot be opened', since: null },
        ...{ detail: 'Its encryption key is missing.', path: '/connected-apps', action: 'Show' },
      },
    ]);
  });
});

describe('connections', () => {
  const found = (states: Record<string, { userId: string; appId: string }[]>, failures: Record<string, object> = {}) =>
    connectionAttention(
      parts({
        connectedApps: { apps: { find: (id: string) => (id === 'crm' ? { name: 'CRM' } : undefined) } },
        grants: {
          index: { page: async ({ state }: { state: string }) => ({ items: states[state] ?? [] }) },
          connections: {
            find: async (userId: string) => {
              if (userId === 'down') throw new Error('The storage is down.');
              return failures[userId] ?? { cause: 'unreadable' };
            },
          },
        },
      }),
    )();
  const EXPIRED = { expired: { cause: 'access_ended' } };
  const of = (...users: string[]) => users.map((userId) => ({ userId, appId: 'crm' }));

  test('lists the most frequent cause, and unverified connections last', async () => {
    const [refused, lost] = [{ cause: 'grant_refused', reason: 'invalid_grant' }, { cause: 'response_lost' }];
    const failures = { a: lost, b: refused, c: refused };
    expect(await found({ reconnect_needed: of('a', 'b', 'c'), unverified: of('a') }, failures)).toEqual([
      {
        ...{
          kind: 'connections_reconnect_needed',
          severity: 'bad',
          text: '3 connections to CRM need reconnecting',
          since: null,
        },
        detail: 'The provider has ended this connection. (invalid_grant)',
        ...{ path: '/connections?app=crm&health=reconnect_needed', action: 'Show' },
      },
      {
        ...{ kind: 'connections_unverified', severity: 'bad', text: '1 connection to CRM is unverified' },
        detail: 'The last renewal of the access was interrupted, and the provider gives each renewal only once.',
        ...{ since: null, path: '/connections?app=crm&health=unverified', action: 'Show' },
      },
    ]);
  });

  test.each([
    ['an access that has expired', 'expired', 'The access has expired, and the provider issued no refresh token.'],
    ['stored data that cannot be read', 'unreadable', 'The stored data of this connection cannot be read.'],
    ['stored data that cannot be loaded', 'down', 'The stored data of this connection cannot be read.'],
  ])('%s', async (_name, user, detail) => {
    const [one] = await found({ reconnect_needed: of(user) }, EXPIRED);
    expect(one).toMatchObject({ text: '1 connection to CRM needs reconnecting', detail });
  });

  test('too many connections: the counted number is a minimum', async () => {
    const many = Array.from({ length: 1_000 }, (_, at) => ({ userId: 'expired', appId: at < 2 ? 'gone' : 'crm' }));
    const texts = (await found({ reconnect_needed: many }, EXPIRED)).map(({ text }) => text);
    expect(texts).toEqual([
      'At least 2 connections to gone need reconnecting',
      'At least 998 connections to CRM need reconnecting',
    ]);
    const [one] = await found({ reconnect_needed: many.slice(1) }, EXPIRED);
    expect(one?.text).toBe('1 connection to gone needs reconnecting');
  });
});

test('lists tokens that expire within two weeks or expired within the last week', async () => {
  const at = (...times: number[]) => times.map((time, n) => ({ id: `t${n}`, name: `T${n}`, expiresAt: NOW + time }));
  const pageOf = (items: object[]) => ({ page: async () => ({ items }) });
  const adminTokens = pageOf(at(15 * DAY, 2 * DAY, -7 * DAY));
  const relay = { tokens: pageOf(at(14 * DAY + 1, 14 * DAY, -7 * DAY + 1, -7 * DAY)) };
  const shared = { detail: null, since: null, action: 'Open' };
  expect(await tokenAttention(parts({ adminTokens, relay }))()).toEqual([
    {
      ...{ kind: 'relay_token_expiring', severity: 'notice', text: 'Relay token T1 expires in 14 days' },
      ...{ path: '/relay-tokens/t1', ...shared },
    },
    {
      ...{ kind: 'relay_token_expiring', severity: 'bad', text: 'Relay token T2 expired 6 days ago' },
      ...{ path: '/relay-tokens/t2', ...shared },
    },
    {
      ...{ kind: 'admin_token_expiring', severity: 'notice', text: 'Admin token T1 expires in 2 days' },
      ...{ path: '/admin-tokens', ...shared },
    },
  ]);
});

test('lists failing webhooks, unless they are disabled', async () => {
  const url = 'https://hooks.example/x';
  const items = ['fine', 'failing', 'silent', 'off'].map((id) => ({ id, url, enabled: id !== 'off' }));
  const healths: Record<string, object> = {
    fine: { last: { result: '204' } },
    failing: { failingSince: NOW - HOUR, last: { result: '503' } },
    silent: { failingSince: NOW - DAY },
    off: { failingSince: NOW },
  };
  const webhooks = {
    registered: { page: async () => ({ items }) },
    healths: { of: async (id: string) => healths[id] },
  };
  const shared = { kind: 'webhook_failing', severity: 'bad', text: 'Webhook hooks.example is failing', action: 'Open' };
  expect(await webhookAttention(parts({ webhooks }))()).toEqual([
    { ...shared, detail: 'Last response: 503', since: '2026-11-21T11:00:00.000Z', path: '/webhooks/failing' },
    { ...shared, detail: null, since: '2026-11-20T12:00:00.000Z', path: '/webhooks/silent' },
  ]);
});

describe('BIN data', () => {
  const found = (some: { used?: number; health?: object; asOf?: string }) => {
    const { used, health = {}, asOf = '2026-01-01' } = some;
    const status = async () => ({ used, limit: 10_000, resetsAt: '2026-12-01T00:00:00.000Z' });
    const quota = used === undefined ? undefined : { status };
    const bins = { quota, tally: { health: async () => health }, dataset: { current: () => ({ asOf }) } };
    return binAttention(parts({ bins }))();
  };
  const failed = (lastFailureAt: string, lastFailure?: string) => ({
    used: 0,
    health: { lastResponseAt: '2026-11-20T11:00:00.000Z', lastFailureAt, lastFailure },
  });
  const failing = { kind: 'bin_service_failing', severity: 'bad', text: 'The BIN lookup service is failing' };
  const quotaOf = (severity: string, used: string) => ({
    ...{ kind: 'bin_quota', severity, text: `${used} of 10,000 calls to the BIN lookup service are used` },
    detail: 'The quota resets in 9 days.',
  });

  test.each([
    ['few calls are used', { used: 7_999 }, []],
    ['four fifths are used', { used: 8_000 }, [quotaOf('notice', '8,000')]],
    ['nearly all are used', { used: 9_999 }, [quotaOf('notice', '9,999')]],
    ['all are used', { used: 10_000 }, [quotaOf('bad', '10,000')]],
    [
      'the service failed today',
      failed('2026-11-20T12:00:01.000Z', '503'),
      [{ ...failing, detail: 'Last failure: 503' }],
    ],
    ['it failed without a word', failed('2026-11-20T12:00:01.000Z'), [{ ...failing, detail: null }]],
    ['it failed a day ago', failed('2026-11-20T12:00:00.000Z', '503'), []],
    ['it has answered since', failed('2026-11-20T10:00:00.000Z', '503'), []],
  ])('where %s', async (_name, some, wanted) => {
    expect(await found(some)).toEqual(wanted.map((one) => ({ ...one, since: null, path: '/bin', action: 'Show' })));
  });

  test('lists data that is more than two years old', async () => {
    expect(await found({ asOf: '2024-01-01' })).toEqual([
      {
        ...{ kind: 'bin_data_old', severity: 'notice', text: 'BIN data is from 2024-01-01', since: null, path: '/bin' },
        ...{ detail: 'Look-ups are marked as outdated. Import a current data set.', action: 'Import' },
      },
    ]);
  });
});

test.each([
  ['k20251122-1a2b', undefined],
  ['k20251121-1a2b', '365'],
  ['k20221121-1a2b', '1,461'],
  ['own-name', undefined],
])('the encryption key %s', async (sealingKid, days) => {
  const found = await keyAttention(parts({ storage: { sealer: { sealingKid } } }))();
  const old = {
    ...{ kind: 'encryption_key_old', severity: 'notice', text: `Encryption key ${sealingKid} is ${days} days old` },
    ...{ detail: 'Put a new key first in ENCRYPTION_KEYS.', since: null, path: '/keys', action: 'Show' },
  };
  expect(found).toEqual(days === undefined ? [] : [old]);
});
