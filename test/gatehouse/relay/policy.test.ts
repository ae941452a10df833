/** The policy as a pure function: each rule can refuse a call, and only a rule can. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  decide,
  RELAY_SCOPES,
  type RelayCall,
  type RelayPolicy,
  verdicts,
} from '../../../src/gatehouse/relay/policy.ts';
import { isAllowedFrom } from '../../../src/shared/config/networks.ts';

const NOW = Date.parse('2026-11-21T12:00:00Z');
const POLICY: RelayPolicy = {
  scopes: RELAY_SCOPES,
  apps: ['platform'],
  users: ['u1'],
  networks: ['10.0.0.0/8', '2001:db8::/32'],
  expiresAt: NOW + 1,
  assertUser: false,
  fullScope: false,
  acceptIdTokens: false,
};
const CALL: RelayCall = {
  scope: 'threads:read',
  app: 'platform',
  subject: { kind: 'user', id: 'u1', proven: true, state: 'active' },
  address: '10.1.2.3',
  now: NOW,
};

describe('each rule refuses alone', () => {
  const user = (changes: object) => ({
    subject: { kind: 'user' as const, id: 'u1', proven: true, state: 'active' as const, ...changes },
  });
  const account = (changes: object) => ({
    subject: { kind: 'service_account' as const, id: 'sa1', app: 'platform', moved: false, ...changes },
  });
  const ofEveryUser = { scope: 'connections:read' as const, subject: undefined, everyUser: true };
  const cases: [string, Partial<RelayPolicy>, Partial<RelayCall>][] = [
    ['expiresAt', { expiresAt: NOW }, {}],
    ['networks', {}, { address: '192.0.2.1' }],
    ['networks', {}, { address: 'not an address' }],
    ['scopes', { scopes: ['bin:read'] }, {}],
    ['apps', { apps: [] }, {}],
    ['users', { users: 'none' }, {}],
    ['users', { users: 'none', assertUser: true }, ofEveryUser],
    ['assertUser', {}, ofEveryUser],
    ['users', { users: ['u2'] }, {}],
    ['users', { users: 'all' }, user({ state: 'disabled' })],
    ['users', { users: 'all' }, user({ state: 'unknown' })],
    ['serviceAccount', {}, account({ app: undefined })],
    ['serviceAccount', {}, account({ app: 'second' })],
    ['serviceAccount', {}, account({ moved: true })],
    ['assertUser', {}, user({ proven: false })],
    ['acceptIdTokens', {}, { idToken: true }],
    ['fullScope', {}, { unnarrowed: true }],
  ];
  test.each(cases)('%s', (rule, policy, call) => {
    expect(decide(POLICY, CALL)).toEqual({ allowed: true });
    const [changedPolicy, changedCall] = [
      { ...POLICY, ...policy },
      { ...CALL, ...call },
    ];
    const detail = expect.stringMatching(new RegExp(`^Rule ${rule}: .*\\.$`));
    const decision = decide(changedPolicy, changedCall);
    expect(decision).toMatchObject({ allowed: false, rule, detail });
    expect(verdicts(changedPolicy, changedCall).filter(({ verdict }) => verdict === 'failed')).toEqual([
      { rule, check: expect.any(String), verdict: 'failed', detail: 'detail' in decision && decision.detail },
    ]);
  });

  test('R81 the verdict of a rule is "passed", or "not_applicable" if the rule concerns other calls', () => {
    const applied = (call: RelayCall, policy = POLICY) =>
      verdicts(policy, call).flatMap(({ rule, verdict, ...rest }) => {
        expect(rest).toEqual({ check: expect.stringMatching(/^The .*\.$/) });
        return verdict === 'not_applicable' ? [] : [`${rule} ${verdict}`];
      });
    const always = ['expiresAt passed', 'networks passed', 'scopes passed'];
    const ofUser = [...always, 'apps passed', 'users passed', 'users passed', 'users passed'];
    expect(applied(CALL)).toEqual(ofUser);
    expect(applied({ ...CALL, ...account({}) })).toEqual([
      ...always,
      'apps passed',
      'serviceAccount passed',
      'serviceAccount passed',
    ]);
    const unknownAccount = verdicts(POLICY, { ...CALL, ...account({ app: undefined }) });
    expect(unknownAccount.flatMap(({ rule, verdict }) => (rule === 'serviceAccount' ? [verdict] : []))).toEqual([
      'failed',
      'not_applicable',
    ]);
    expect(applied({ ...CALL, scope: 'bin:read', app: undefined, subject: undefined })).toEqual(always);
    const flags = { assertUser: true, fullScope: true, acceptIdTokens: true };
    const unproven: RelayCall = { ...CALL, ...user({ proven: false }), idToken: true, unnarrowed: true };
    expect(applied(unproven, { ...POLICY, ...flags }).toSorted()).toEqual(
      [...ofUser, 'acceptIdTokens passed', 'assertUser passed', 'fullScope passed'].toSorted(),
    );
  });

  test('a service account does not count as a user, and a BIN look-up needs neither user nor app', () => {
    const account: RelayCall = {
      ...CALL,
      subject: { kind: 'service_account', id: 'sa1', app: 'platform', moved: false },
    };
    expect(decide({ ...POLICY, users: 'none' }, account)).toEqual({ allowed: true });
    const bin: RelayCall = { ...CALL, scope: 'bin:read', app: undefined, subject: undefined };
    expect(decide({ ...POLICY, users: 'none', apps: [] }, bin)).toEqual({ allowed: true });
  });

  test('R81 reveals whether a user exists only to a token that may name and act for that user', () => {
    const named: RelayCall = { ...CALL, ...user({ proven: false, state: 'unknown' }) };
    expect(decide({ ...POLICY, users: 'all' }, named)).toMatchObject({ rule: 'assertUser' });
    const trusted = { ...POLICY, users: 'all' as const, assertUser: true };
    expect(decide(trusted, named)).toMatchObject({ rule: 'users', unknown: true });
    const limited = { ...trusted, users: ['u2'] };
    expect(decide(limited, named)).toEqual(decide(limited, { ...CALL, ...user({ proven: false }) }));
  });
});

const policies = fc.record<RelayPolicy>({
  scopes: fc.subarray([...RELAY_SCOPES]),
  apps: fc.subarray(['platform', 'second']),
  users: fc.oneof(fc.constantFrom('all' as const, 'none' as const), fc.subarray(['u1', 'u2'])),
  networks: fc.subarray(['10.0.0.0/8', '192.0.2.1', '::1']),
  expiresAt: fc.constantFrom(NOW - 1, NOW, NOW + 1),
  assertUser: fc.boolean(),
  fullScope: fc.boolean(),
  acceptIdTokens: fc.boolean(),
});
const calls = fc.record<RelayCall>({
  scope: fc.constantFrom(...RELAY_SCOPES),
  app: fc.constantFrom('platform', 'second'),
  subject: fc.record({
    kind: fc.constant('user' as const),
    id: fc.constantFrom('u1', 'u2'),
    proven: fc.boolean(),
    state: fc.constantFrom('active' as const, 'disabled' as const, 'unknown' as const),
  }),
  address: fc.constantFrom('10.9.9.9', '192.0.2.1', '::1', '::ffff:10.0.0.1', '198.51.100.1'),
  now: fc.constant(NOW),
  idToken: fc.boolean(),
});

test('R81 a narrower policy never allows a call that the wider one refuses', () => {
  fc.assert(
    fc.property(policies, calls, fc.nat(), (policy, call, which) => {
      const less: Partial<RelayPolicy>[] = [
        { scopes: policy.scopes.slice(1) },
        { apps: policy.apps.slice(1) },
        { users: 'none' },
        { expiresAt: policy.expiresAt - 1 },
        { assertUser: false },
        { fullScope: false },
        { acceptIdTokens: false },
      ];
      const narrower = { ...policy, ...less[which % less.length] };
      if (decide(narrower, call).allowed) expect(decide(policy, call)).toEqual({ allowed: true });
    }),
  );
});

test('R81 allows a call only if scope, app, user, proof, network and time are all allowed', () => {
  fc.assert(
    fc.property(policies, calls, (policy, call) => {
      const { subject, app = '' } = call;
      const holds =
        policy.scopes.includes(call.scope) &&
        policy.apps.includes(app) &&
        NOW < policy.expiresAt &&
        subject?.kind === 'user' &&
        subject.state === 'active' &&
        (subject.proven || policy.assertUser) &&
        (!call.idToken || policy.acceptIdTokens) &&
        (policy.users === 'all' || policy.users.includes(subject.id)) &&
        isAllowedFrom(call.address, policy.networks);
      expect(decide(policy, call).allowed).toBe(holds);
    }),
  );
});
