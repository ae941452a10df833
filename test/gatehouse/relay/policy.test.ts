/** The policy as a pure function: each rule can refuse a call, and only a rule can. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  checkRules,
  decide,
  RELAY_SCOPES,
  type RelayCall,
  type RelayPolicy,
} from '../../../src/gatehouse/relay/policy.ts';
import { isAllowedFrom } from '../../../src/shared/config/networks.ts';

const NOW = Date.parse('2026-11-21T12:00:00Z');
const POLICY: RelayPolicy = {
  scopes: RELAY_SCOPES,
  apps: ['platform'],
  routes: ['thread'],
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

describe('a rule', () => {
  const userWith = (changes: object) => ({
    subject: { kind: 'user' as const, id: 'u1', proven: true, state: 'active' as const, ...changes },
  });
  const accountWith = (changes: object) => ({
    subject: { kind: 'service_account' as const, id: 'sa1', app: 'platform', moved: false, ...changes },
  });
  const CALL_FOR_EVERY_USER = { scope: 'connections:read' as const, subject: undefined, everyUser: true };
  const cases: [string, Partial<RelayPolicy>, Partial<RelayCall>][] = [
    ['expiresAt', { expiresAt: NOW }, {}],
    ['networks', {}, { address: '192.0.2.1' }],
    ['networks', {}, { address: 'not an address' }],
    ['scopes', { scopes: ['bin:read'] }, {}],
    ['apps', { apps: [] }, {}],
    ['routes', { routes: [] }, { scope: 'api:call', route: { name: 'thread', method: 'GET' } }],
    ['routes', {}, { scope: 'api:call', route: { name: 'other', method: 'GET' } }],
    ['routes', { routes: 'reads' }, { scope: 'api:call', route: { name: 'thread', method: 'POST' } }],
    ['users', { users: 'none' }, {}],
    ['users', { users: 'none', assertUser: true }, CALL_FOR_EVERY_USER],
    ['assertUser', {}, CALL_FOR_EVERY_USER],
    ['users', { users: ['u2'] }, {}],
    ['users', { users: 'all' }, userWith({ state: 'disabled' })],
    ['users', { users: 'all' }, userWith({ state: 'unknown' })],
    ['serviceAccount', {}, accountWith({ app: undefined })],
    ['serviceAccount', {}, accountWith({ app: 'second' })],
    ['serviceAccount', {}, accountWith({ moved: true })],
    ['assertUser', {}, userWith({ proven: false })],
    ['acceptIdTokens', {}, { idToken: true }],
    ['fullScope', {}, { fullScope: true }],
  ];
  test.each(cases)('%s alone refuses a call: policy %j, call %j', (rule, policyChanges, callChanges) => {
    expect(decide(POLICY, CALL)).toEqual({ allowed: true });
    const changedPolicy = { ...POLICY, ...policyChanges };
    const changedCall = { ...CALL, ...callChanges };
    const detail = expect.stringMatching(new RegExp(`^Rule ${rule}: .*\\.$`));
    const decision = decide(changedPolicy, changedCall);
    expect(decision).toMatchObject({ allowed: false, rule, detail });
    expect(checkRules(changedPolicy, changedCall).filter(({ result }) => result === 'failed')).toEqual([
      { rule, check: expect.any(String), result: 'failed', detail: 'detail' in decision && decision.detail },
    ]);
  });

  const BIN_CALL: RelayCall = { ...CALL, scope: 'bin:read', app: undefined, subject: undefined };

  test('R81 the result of a rule is "passed", or "not_applicable" if the rule concerns other calls', () => {
    /** The rules that apply to an allowed call, once for each of their checks. */
    const passedRules = (call: RelayCall, policy = POLICY) => {
      const rules: string[] = [];
      for (const { rule, result, ...check } of checkRules(policy, call)) {
        expect(check).toEqual({ check: expect.stringMatching(/^The .*\.$/) });
        if (result === 'not_applicable') continue;
        expect(result).toBe('passed');
        rules.push(rule);
      }
      return rules;
    };
    const RULES_OF_EVERY_CALL = ['expiresAt', 'networks', 'scopes'];
    const RULES_OF_USERS = [...RULES_OF_EVERY_CALL, 'apps', 'users', 'users', 'users'];
    const RULES_OF_ACCOUNTS = [...RULES_OF_EVERY_CALL, 'apps', 'serviceAccount', 'serviceAccount'];
    expect(passedRules(CALL)).toEqual(RULES_OF_USERS);
    expect(passedRules({ ...CALL, ...accountWith({}) })).toEqual(RULES_OF_ACCOUNTS);
    expect(passedRules(BIN_CALL)).toEqual(RULES_OF_EVERY_CALL);

    const policyWithFlags = { ...POLICY, assertUser: true, fullScope: true, acceptIdTokens: true };
    const callWithFlags: RelayCall = { ...CALL, ...userWith({ proven: false }), idToken: true, fullScope: true };
    expect(passedRules(callWithFlags, policyWithFlags).toSorted()).toEqual(
      [...RULES_OF_USERS, 'acceptIdTokens', 'assertUser', 'fullScope'].toSorted(),
    );
  });

  test('R81 whose first check has failed does not make its second check', () => {
    const checks = checkRules(POLICY, { ...CALL, ...accountWith({ app: undefined }) });
    const accountChecks = checks.filter(({ rule }) => rule === 'serviceAccount');
    expect(accountChecks.map(({ result }) => result)).toEqual(['failed', 'not_applicable']);
  });

  test('for users does not apply to a service account or a BIN lookup, and that for apps not to the latter', () => {
    const accountCall: RelayCall = { ...CALL, ...accountWith({}) };
    expect(decide({ ...POLICY, users: 'none' }, accountCall)).toEqual({ allowed: true });
    expect(decide({ ...POLICY, users: 'none', apps: [] }, BIN_CALL)).toEqual({ allowed: true });
  });

  test('R81 reveals whether a user exists only to a token that may name and act for that user', () => {
    const callForUnknownUser: RelayCall = { ...CALL, ...userWith({ proven: false, state: 'unknown' }) };
    const callForKnownUser: RelayCall = { ...CALL, ...userWith({ proven: false }) };

    const mayNotName = { ...POLICY, users: 'all' as const };
    expect(decide(mayNotName, callForUnknownUser)).toMatchObject({ rule: 'assertUser' });

    const mayName = { ...mayNotName, assertUser: true };
    expect(decide(mayName, callForUnknownUser)).toMatchObject({ rule: 'users', unknown: true });

    const mayNotAct = { ...mayName, users: ['u2'] };
    expect(decide(mayNotAct, callForUnknownUser)).toEqual(decide(mayNotAct, callForKnownUser));
  });
});

const anyPolicy = fc.record<RelayPolicy>({
  scopes: fc.subarray([...RELAY_SCOPES]),
  apps: fc.subarray(['platform', 'second']),
  routes: fc.oneof(fc.constant('reads' as const), fc.subarray(['thread', 'message'])),
  users: fc.oneof(fc.constantFrom('all' as const, 'none' as const), fc.subarray(['u1', 'u2'])),
  networks: fc.subarray(['10.0.0.0/8', '192.0.2.1', '::1']),
  expiresAt: fc.constantFrom(NOW - 1, NOW, NOW + 1),
  assertUser: fc.boolean(),
  fullScope: fc.boolean(),
  acceptIdTokens: fc.boolean(),
});
const anyCall = fc.record<RelayCall>({
  scope: fc.constantFrom(...RELAY_SCOPES),
  app: fc.constantFrom('platform', 'second'),
  route: fc.constantFrom(
    undefined,
    { name: 'thread', method: 'GET' as const },
    { name: 'message', method: 'POST' as const },
  ),
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
    fc.property(anyPolicy, anyCall, fc.nat(), (policy, call, number) => {
      const restrictions: Partial<RelayPolicy>[] = [
        { scopes: policy.scopes.slice(1) },
        { apps: policy.apps.slice(1) },
        { routes: policy.routes === 'reads' ? ['thread'] : policy.routes.slice(1) },
        { users: 'none' },
        { expiresAt: policy.expiresAt - 1 },
        { assertUser: false },
        { fullScope: false },
        { acceptIdTokens: false },
      ];
      const narrower = { ...policy, ...restrictions[number % restrictions.length] };
      if (decide(narrower, call).allowed) expect(decide(policy, call)).toEqual({ allowed: true });
    }),
  );
});

test('R81 allows a call only if scope, app, user, proof, network and time are all allowed', () => {
  fc.assert(
    fc.property(anyPolicy, anyCall, (policy, call) => {
      const { subject, route, app = '' } = call;
      const isRouteCovered =
        !route || (policy.routes === 'reads' ? route.method === 'GET' : policy.routes.includes(route.name));
      const isCovered =
        policy.scopes.includes(call.scope) &&
        policy.apps.includes(app) &&
        isRouteCovered &&
        NOW < policy.expiresAt &&
        subject?.kind === 'user' &&
        subject.state === 'active' &&
        (subject.proven || policy.assertUser) &&
        (!call.idToken || policy.acceptIdTokens) &&
        (policy.users === 'all' || policy.users.includes(subject.id)) &&
        isAllowedFrom(call.address, policy.networks);
      expect(decide(policy, call).allowed).toBe(isCovered);
    }),
  );
});
