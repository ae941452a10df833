/** The rules of the attention list, with values just below and at their limits. */
import { describe, expect, test } from 'vitest';
import { secretAge, stateOf } from '../../../../src/gatehouse/admin/credential.ts';
import { appAttention } from '../../../../src/gatehouse/admin/overview/attention/apps.ts';
import { foldAttention } from '../../../../src/gatehouse/admin/overview/attention/attention.ts';
import { connectionAttention } from '../../../../src/gatehouse/admin/overview/attention/connections.ts';
import { binAttention, keyAttention } from '../../../../src/gatehouse/admin/overview/attention/data.ts';
import { tokenAttention, webhookAttention } from '../../../../src/gatehouse/admin/overview/attention/services.ts';
import type { AdminParts } from '../../../../src/gatehouse/admin/parts.ts';

const NOW = Date.UTC(2026, 10, 21, 12, 0);
const HOUR = 3_600_000;
const DAY = 86_400_000;
const clock = () => NOW;
const publicUrl = { href: 'https://gatehouse.example' } as AdminParts['publicUrl'];

/** Stands in for the modules, of which each rule reads only a few members. */
const partsWith = (members: object) => ({ clock, publicUrl, ...members }) as unknown as AdminParts;

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
  { age: null, expected: { days: undefined, isOld: false, expiry: undefined } },
  { age: 180 * DAY + HOUR, expected: { days: 180, isOld: false, expiry: undefined } },
  { age: 181 * DAY, expected: { days: 181, isOld: true, expiry: undefined } },
  { age: DAY, remaining: 14 * DAY, expected: { days: 1, isOld: false, expiry: 'soon' } },
  { age: DAY, remaining: 14 * DAY + 1, expected: { days: 1, isOld: false, expiry: undefined } },
  { age: DAY, remaining: 0, expected: { days: 1, isOld: false, expiry: 'expired' } },
])('a secret that is $age ms old and expires in $remaining ms is $expected', ({ age, remaining, expected }) => {
  const iso = (time: number) => new Date(time).toISOString();
  const setAt = age === null ? null : iso(NOW - age);
  const expiresAt = remaining === undefined ? null : iso(NOW + remaining);
  expect(secretAge({ setAt, expiresAt }, NOW)).toEqual(expected);
});

describe('connected apps', () => {
  const app = { id: 'crm', name: 'CRM', callbackUrls: [`${publicUrl.href}/oauth/callback/crm`], clientSecret: 'x' };
  /** The attention that this app needs, with changed fields, the findings of its last check, and its secret. */
  const attentionOf = (state: {
    app?: object;
    findings?: object[];
    secret?: { setAt?: number; expiresAt?: number };
  }) => {
    const changedApp = { ...app, ...state.app };
    const { setAt: secretSetAt, expiresAt: secretExpiresAt } = state.secret ?? {};
    return appAttention(
      partsWith({
        connectedApps: {
          apps: { list: () => [changedApp], nameOf: () => changedApp.name },
          registry: { list: async () => [{ app: changedApp, secretSetAt, secretExpiresAt }] },
          checks: { read: async () => state.findings && { at: NOW - 5 * 60_000, findings: state.findings } },
        },
      }),
    )();
  };
  const problem = { check: 'keys', result: 'failed', detail: 'The keys cannot be read.' };

  test.each([
    ['without problems', {}],
    ['with a check that found no problem', { findings: [{ ...problem, result: 'passed' }] }],
    [
      'that is disabled, although it cannot be used and its check failed',
      { app: { disabled: true, callbackUrls: [] }, findings: [problem] },
    ],
    ['that is disabled, with an old secret', { app: { disabled: true }, secret: { setAt: NOW - 400 * DAY } }],
    ['without a secret', { app: { clientSecret: undefined }, secret: { setAt: NOW - 400 * DAY } }],
  ])('an app %s needs no attention', async (_name, state) => {
    expect(await attentionOf(state)).toEqual([]);
  });

  const secretItem = (severity: string, words: string, expiresIn?: number) => ({
    expiresAt: expiresIn === undefined ? null : new Date(NOW + expiresIn).toISOString(),
    name: `CRM (${words})`,
    ...{ kind: 'client_secret', severity, text: `Client secret of CRM ${words}`, action: 'Renew' },
    detail: 'Create a new one at the provider and enter it here.',
    path: '/connected-apps/crm/settings#clientSecret',
  });
  test.each<[description: string, state: Parameters<typeof attentionOf>[0], expectedItem: object]>([
    [
      'without its callback URL',
      { app: { callbackUrls: [] }, findings: [problem] },
      {
        ...{ kind: 'app_unusable', severity: 'critical', text: 'CRM cannot be used: its callback URL is missing' },
        ...{ detail: 'https://gatehouse.example/oauth/callback/crm', path: '/connected-apps/crm', action: 'Open' },
        name: 'CRM',
      },
    ],
    [
      'whose check failed',
      { findings: [{ ...problem, result: 'passed' }, problem] },
      {
        ...{ kind: 'app_check_failed', severity: 'critical', text: 'The check of CRM failed 5 min ago' },
        ...{ detail: 'The keys cannot be read.', path: '/connected-apps/crm/check', action: 'Show' },
        name: 'CRM',
      },
    ],
    ['whose secret is old', { secret: { setAt: NOW - 1_200 * DAY } }, secretItem('warning', 'is 1,200 days old')],
    [
      'whose secret expires soon',
      { secret: { expiresAt: NOW + 3 * DAY } },
      secretItem('warning', 'expires in 3 days', 3 * DAY),
    ],
    [
      'whose secret has expired',
      { secret: { expiresAt: NOW - 2 * DAY } },
      secretItem('critical', 'expired 2 days ago', -2 * DAY),
    ],
  ])('an app %s is listed', async (_name, state, expectedItem) => {
    expect(await attentionOf(state)).toEqual([{ ...expectedItem, since: null }]);
  });

  test('an app that cannot be opened is listed', async () => {
    const connectedApps = {
      apps: { list: () => [] },
      registry: { list: async () => [{ id: 'lost', unreadable: true }] },
    };
    expect(await appAttention(partsWith({ connectedApps }))()).toEqual([
      {
        ...{
          kind: 'app_unreadable',
          severity: 'critical',
          text: 'The stored data of lost cannot be opened',
          since: null,
        },
        ...{ detail: 'Its encryption key is missing.', path: '/connected-apps', action: 'Show', name: 'lost' },
      },
    ]);
  });
});

describe('connections', () => {
  const attentionOf = (
    states: Record<string, { userId: string; appId: string }[]>,
    failures: Record<string, object> = {},
  ) =>
    connectionAttention(
      partsWith({
        connectedApps: { apps: { nameOf: (id: string) => (id === 'crm' ? 'CRM' : id) } },
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
  const connectionsOf = (...users: string[]) => users.map((userId) => ({ userId, appId: 'crm' }));

  test('lists the most frequent cause, and unverified connections last', async () => {
    const refused = { cause: 'grant_refused', reason: 'invalid_grant' };
    const failures = { a: { cause: 'response_lost' }, b: refused, c: refused };
    const states = { reconnect_needed: connectionsOf('a', 'b', 'c'), unverified: connectionsOf('a') };
    expect(await attentionOf(states, failures)).toEqual([
      {
        ...{
          kind: 'connections_reconnect_needed',
          severity: 'critical',
          text: '3 connections to CRM need reconnecting',
          since: null,
        },
        detail: 'The provider has ended this connection. (invalid_grant)',
        ...{ path: '/connections?app=crm&health=reconnect_needed', action: 'Show', name: 'CRM (3)' },
      },
      {
        ...{ kind: 'connections_unverified', severity: 'critical', text: '1 connection to CRM is unverified' },
        detail: 'The last renewal of the access was interrupted, and the provider gives each renewal only once.',
        ...{ since: null, path: '/connections?app=crm&health=unverified', action: 'Show', name: 'CRM (1)' },
      },
    ]);
  });

  test.each([
    ['an access that has expired', 'expired', 'The access has expired, and the provider issued no refresh token.'],
    ['stored data that cannot be read', 'unreadable', 'The stored data of this connection cannot be read.'],
    ['stored data that cannot be loaded', 'down', 'The stored data of this connection cannot be read.'],
  ])('the cause of a connection that needs reconnecting: %s', async (_name, user, detail) => {
    const [item] = await attentionOf({ reconnect_needed: connectionsOf(user) }, EXPIRED);
    expect(item).toMatchObject({ text: '1 connection to CRM needs reconnecting', detail });
  });

  test('if there are more connections than are read, the shown number is a minimum', async () => {
    const ofDeletedApp = { userId: 'expired', appId: 'gone' };
    const ofApp = { userId: 'expired', appId: 'crm' };
    const wholePage = [...Array(2).fill(ofDeletedApp), ...Array(998).fill(ofApp)];
    const texts = (await attentionOf({ reconnect_needed: wholePage }, EXPIRED)).map(({ text }) => text);
    expect(texts).toEqual([
      'At least 998 connections to CRM need reconnecting',
      'At least 2 connections to gone need reconnecting',
    ]);

    const [, secondItem] = await attentionOf({ reconnect_needed: wholePage.slice(1) }, EXPIRED);
    expect(secondItem?.text).toBe('1 connection to gone needs reconnecting');
  });
});

test('lists tokens that expire within two weeks or expired within the last week', async () => {
  const tokensThatExpireIn = (...times: number[]) =>
    times.map((time, number) => ({ id: `t${number}`, name: `T${number}`, expiresAt: NOW + time }));
  const pageOf = (items: object[]) => ({ page: async () => ({ items }) });
  const adminTokens = pageOf(tokensThatExpireIn(15 * DAY, 2 * DAY, -7 * DAY));
  const relay = { tokens: pageOf(tokensThatExpireIn(14 * DAY + 1, 14 * DAY, -7 * DAY + 1, -7 * DAY)) };
  const shared = { detail: null, since: null, action: 'Open' };
  expect(await tokenAttention(partsWith({ adminTokens, relay }))()).toEqual([
    {
      ...{ kind: 'relay_token_expiring', severity: 'critical', text: 'Relay token T2 expired 7 days ago' },
      ...{ path: '/relay-tokens/t2', name: 'T2 7 days ago', expiresAt: '2026-11-14T12:00:00.001Z', ...shared },
    },
    {
      ...{ kind: 'relay_token_expiring', severity: 'warning', text: 'Relay token T1 expires in 14 days' },
      ...{ path: '/relay-tokens/t1', name: 'T1 in 14 days', expiresAt: '2026-12-05T12:00:00.000Z', ...shared },
    },
    {
      ...{ kind: 'admin_token_expiring', severity: 'warning', text: 'Admin token T1 expires in 2 days' },
      ...{ path: '/admin-tokens', name: 'T1 in 2 days', expiresAt: '2026-11-23T12:00:00.000Z', ...shared },
    },
  ]);
});

test('lists failing webhooks, unless they are disabled', async () => {
  const url = 'https://hooks.example/x';
  const items = ['fine', 'failing', 'silent', 'off'].map((id) => ({ id, url, disabled: id === 'off' }));
  const healths: Record<string, object> = {
    fine: { last: { status: 204 } },
    failing: { failingSince: NOW - HOUR, last: { status: 503 } },
    silent: { failingSince: NOW - DAY },
    off: { failingSince: NOW },
  };
  const webhooks = {
    registered: { page: async () => ({ items }) },
    healths: { of: async (id: string) => healths[id] },
  };
  const shared = {
    ...{ kind: 'webhook_failing', severity: 'critical', action: 'Open' },
    ...{ text: 'Webhook hooks.example is failing', name: 'hooks.example' },
  };
  expect(await webhookAttention(partsWith({ webhooks }))()).toEqual([
    { ...shared, detail: 'Last response: 503', since: '2026-11-21T11:00:00.000Z', path: '/webhooks/failing' },
    { ...shared, detail: null, since: '2026-11-20T12:00:00.000Z', path: '/webhooks/silent' },
  ]);
});

describe('BIN data', () => {
  const attentionOf = (state: { used?: number; health?: object; asOf?: string }) => {
    const { used, health = {}, asOf = '2026-01-01' } = state;
    const status = async () => ({ used, limit: 10_000, resetsAt: '2026-12-01T00:00:00.000Z' });
    const quota = used === undefined ? undefined : { status };
    const bins = { quota, tally: { health: async () => health }, dataset: { current: () => ({ asOf }) } };
    return binAttention(partsWith({ bins }))();
  };
  /** The last response came on 20 November at 11:00. Now is 21 November at 12:00. */
  const failedAt = (lastFailureAt: string, lastFailure?: string) => ({
    used: 0,
    health: { lastResponseAt: '2026-11-20T11:00:00.000Z', lastFailureAt, lastFailure },
  });
  const failingItem = { kind: 'bin_service_failing', severity: 'critical', text: 'The BIN lookup service is failing' };
  const quotaItem = (severity: string, used: string) => ({
    ...{ kind: 'bin_quota', severity, text: `${used} of 10,000 calls to the BIN lookup service are used` },
    detail: 'The quota resets in 10 days.',
  });

  test.each([
    ['few calls are used', { used: 7_999 }, []],
    ['four fifths are used', { used: 8_000 }, [quotaItem('warning', '8,000')]],
    ['nearly all are used', { used: 9_999 }, [quotaItem('warning', '9,999')]],
    ['all are used', { used: 10_000 }, [quotaItem('critical', '10,000')]],
    [
      'the service failed today',
      failedAt('2026-11-20T12:00:01.000Z', '503'),
      [{ ...failingItem, detail: 'Last failure: 503' }],
    ],
    ['it failed without a reason', failedAt('2026-11-20T12:00:01.000Z'), [{ ...failingItem, detail: null }]],
    ['it failed exactly a day ago', failedAt('2026-11-20T12:00:00.000Z', '503'), []],
    ['it has responded since its failure', failedAt('2026-11-20T10:00:00.000Z', '503'), []],
  ])('the BIN lookup service if %s', async (_name, state, expectedItems) => {
    const shared = { since: null, path: '/bin', action: 'Show' };
    expect(await attentionOf(state)).toEqual(expectedItems.map((item) => ({ ...item, ...shared })));
  });

  test('lists data that is more than two years old', async () => {
    expect(await attentionOf({ asOf: '2024-01-01' })).toEqual([
      {
        ...{
          kind: 'bin_data_old',
          severity: 'warning',
          text: 'BIN data is from 1 January 2024',
          since: null,
          path: '/bin',
        },
        ...{ detail: 'Lookups are marked as outdated. Import a current data set.', action: 'Import' },
      },
    ]);
  });
});

test.each([
  ['k20251122-1a2b', undefined],
  ['k20251121-1a2b', '365'],
  ['k20221121-1a2b', '1,461'],
  ['own-name', undefined],
])(
  'the encryption key %s is listed if its name has a date a year ago, with its age in days: %s',
  async (sealingKid, days) => {
    const items = await keyAttention(partsWith({ storage: { sealer: { sealingKid } } }))();
    const itemOfOldKey = {
      ...{ kind: 'encryption_key_old', severity: 'warning', text: `Encryption key ${sealingKid} is ${days} days old` },
      ...{ detail: 'Put a new key first in ENCRYPTION_KEYS.', since: null, path: '/keys', action: 'Show' },
    };
    expect(items).toEqual(days === undefined ? [] : [itemOfOldKey]);
  },
);

test.each([
  [
    'nothing beyond the first three',
    [
      ['warning', null],
      ['warning', null],
      ['warning', null],
      ['warning', null],
    ],
    3,
  ],
  [
    'what fails',
    [
      ['critical', null],
      ['critical', null],
      ['critical', null],
      ['critical', null],
      ['warning', null],
    ],
    4,
  ],
  [
    'what expires within 48 hours',
    [
      ['critical', null],
      ['warning', 0],
      ['warning', 47],
      ['warning', 47.9],
      ['warning', 48],
      ['warning', null],
    ],
    4,
  ],
] as const)('the overview always shows %s', (_name, rows, count) => {
  const attention = rows.map(([severity, hours], index) => ({
    ...{ kind: 'client_secret' as const, severity, count: 1, detail: null, since: null, path: '/', action: 'Show' },
    text: `${index}`,
    expiresAt: hours === null ? null : new Date(NOW + hours * HOUR).toISOString(),
  }));
  const { shown, folded } = foldAttention(attention, NOW);
  expect(shown).toEqual(attention.slice(0, count));
  expect(folded).toEqual(attention.slice(count));
});
