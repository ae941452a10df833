/** Rules about claims, and what they say of a claim that does not fit. */
import { describe, expect, test } from 'vitest';
import { type ClaimRule, holds, holdsVerified, observe } from '../../../src/gatehouse/sign-in/claim-rule.ts';
import { observationAdvice, observationWords } from '../../../src/gatehouse/sign-in-record/claim-observation.ts';
import type { Claims } from '../../../src/shared/provider/token-response.ts';

const claimsWith = (claims: object): Claims => ({ sub: 's1', ...claims });
const rule = (claim: string, ...values: string[]): ClaimRule => ({ claim, values });
const GROUPS = rule('groups', 'staff', 'owners');
const ADDRESS = rule('email', 'ada@example.test');

describe('a rule holds', () => {
  test.each<[ClaimRule, object, boolean]>([
    [rule('/realm_access/roles', 'staff'), { realm_access: { roles: ['offline_access', 'staff'] } }, true],
    [
      rule('/resource_access/gate.house/roles', 'staff'),
      { resource_access: { 'gate.house': { roles: ['staff'] } } },
      true,
    ],
    [rule('https://example.com/roles', 'staff'), { 'https://example.com/roles': ['staff'] }, true],
    [rule('realm_access.roles', 'staff'), { realm_access: { roles: ['staff'] } }, false],
    // The claim of exactly this name decides, even if it is empty.
    [rule('/a/b', 'staff'), { '/a/b': [], a: { b: ['staff'] } }, false],
    [rule('/groups/0', 'staff'), { groups: ['staff'] }, true],
    [rule('groups', 'staff'), { groups: 'staff' }, true],
    [rule('groups', 'staff'), { groups: 'staff,owners' }, false],
    [rule('groups', 'true'), { groups: true }, false],
  ])('%j with %j: %s', (...row) => {
    expect(holds(claimsWith(row[1]), row[0])).toBe(row[2]);
  });

  test.each<[string, unknown, boolean]>([
    ['ada@example.test', 'ada@example.test', true],
    ['ada@example.test', 'Ada@Example.TEST', true],
    ['ADA@EXAMPLE.TEST', 'ada@example.test', true],
    ['ada@example.test', 'ada+1@example.test', false],
    ['ada@example.test', ' ada@example.test', false],
    ['ada@example.test', 'ada@example.test.', false],
    ['ada@example.test', ['ada@example.test'], false],
    // Letters that fold to those of A to Z: the Kelvin sign, the long s, the dotless i, full width.
    ['kim@example.test', '\u212aim@example.test', false],
    ['ada@example.test', 'ada@example.te\u017ft', false],
    ['info@example.test', '\u0131nfo@example.test', false],
    ['ada@example.test', '\uff41da@example.test', false],
    // The same letter in two forms.
    ['zo\u00eb@example.test', 'zoe\u0308@example.test', false],
    ['zo\u00eb@example.test', 'zo\u00cb@example.test', false],
  ])('R19 the address %j with the claim %j: %s', (listed, email, isSame) => {
    const claims = claimsWith({ email, email_verified: true });
    expect(holds(claims, rule('email', listed))).toBe(isSame);
    expect(holdsVerified(claims, rule('email', listed))).toBe(isSame);
    expect(holdsVerified(claims, rule('/email', listed))).toBe(isSame);
  });

  test.each<[unknown, string]>([
    [undefined, 'verification_absent'],
    [null, 'verification_absent'],
    [false, 'verification_false'],
    ['true', 'verification_no_boolean'],
    ['false', 'verification_no_boolean'],
    [1, 'verification_no_boolean'],
    [[true], 'verification_no_boolean'],
    [{ 'ada@example.test': true }, 'verification_no_boolean'],
  ])('R19 an address with email_verified %j names no administrator: %s', (verified, seen) => {
    // Entra ID says of the domain what it does not say of the address.
    const claims = claimsWith({ email: 'Ada@example.test', email_verified: verified, xms_edov: true });
    expect(holds(claims, ADDRESS)).toBe(true);
    expect(holdsVerified(claims, ADDRESS)).toBe(false);
    expect(observe(claims, ADDRESS)).toEqual({ claim: 'email', seen, elsewhere: undefined });
  });
});

test('R19 email_verified says nothing of a claim with the name /email', () => {
  const claims = claimsWith({ email: 'eve@example.test', email_verified: true, '/email': 'ada@example.test' });
  expect(holdsVerified(claims, rule('/email', 'ada@example.test'))).toBe(false);
});

describe('R141 a refusal says what was seen', () => {
  test.each<[seen: string, ClaimRule, object]>([
    ['absent', GROUPS, {}],
    ['absent', GROUPS, { groups: null }],
    ['absent', GROUPS, { groups: undefined, roles: ['reader'] }],
    ['absent', rule('/realm_access/roles', 'staff'), { realm_access: {} }],
    [
      'left_out',
      GROUPS,
      { _claim_names: { groups: 'src1' }, _claim_sources: { src1: { endpoint: 'https://x.test' } } },
    ],
    ['left_out', GROUPS, { hasgroups: true }],
    ['left_out', GROUPS, { hasgroups: 'true' }],
    [
      'left_out',
      rule('/resource/roles', 'a'),
      { _claim_names: { resource: 's' }, _claim_sources: { s: { JWT: 'x.y.z' } } },
    ],
    ['left_out', rule('/https:~1~1x.test~1a/roles', 'a'), { _claim_names: { 'https://x.test/a': 's' } }],
    ['left_out', rule('https://x.test/roles', 'a'), { _claim_names: { 'https://x.test/roles': 's' } }],
    ['absent', rule('roles', 'a'), { _claim_names: { groups: 's' }, hasgroups: true }],
    ['absent', GROUPS, { hasgroups: false, _claim_names: 'groups' }],
    ['other_values', GROUPS, { groups: ['guests'] }],
    ['other_values', GROUPS, { groups: [] }],
    ['other_values', GROUPS, { groups: '' }],
    ['other_values', GROUPS, { groups: ['staffing', 'non-staff'] }],
    ['other_case', GROUPS, { groups: ['guests', 'Staff'] }],
    ['other_case', GROUPS, { groups: 'OWNERS' }],
    ['other_case', rule('groups', 'ÉQUIPE'), { groups: ['équipe'] }],
    ['alike', GROUPS, { groups: ['/staff'] }],
    ['alike', GROUPS, { groups: ['staff '] }],
    ['alike', rule('groups', '/staff'), { groups: ['Staff'] }],
    ['alike', GROUPS, { groups: [' / staff / '] }],
    ['other_values', GROUPS, { groups: [' / '] }],
    ['joined', GROUPS, { groups: 'guests staff' }],
    ['joined', GROUPS, { groups: 'guests,staff' }],
    ['joined', GROUPS, { groups: ['guests; owners'] }],
    ['other_form', GROUPS, { groups: { a: 1 } }],
    ['other_form', GROUPS, { groups: [{ name: 'staff' }] }],
    ['other_form', GROUPS, { groups: 7 }],
    ['other_form', ADDRESS, { email: ['ada@example.test'] }],
    ['other_form', rule('admin', 'true'), { admin: true }],
  ])('%s: %j with %j', (seen, given, claims) => {
    expect(observe(claimsWith(claims), given)).toMatchObject({ claim: given.claim, seen });
  });

  test.each<[ClaimRule, object, { at: string; by: string } | undefined]>([
    [GROUPS, { realm_access: { roles: ['staff'] } }, { at: '/realm_access/roles', by: 'value' }],
    [GROUPS, { groups: ['guests'], 'https://x.test/roles': 'owners' }, { at: 'https://x.test/roles', by: 'value' }],
    [GROUPS, { Groups: ['guests'] }, { at: 'Groups', by: 'case' }],
    [
      rule('/Realm_Access/roles', 'a'),
      { roles: 'b', realm_access: { roles: ['c'] } },
      { at: '/realm_access/roles', by: 'case' },
    ],
    [rule('roles.list', 'a'), { x: { List: ['b'] } }, { at: '/x/List', by: 'name' }],
    [rule('/realm_access/roles', 'a'), { roles: ['b'] }, { at: 'roles', by: 'name' }],
    [rule('Email', 'ada@example.test'), { email: 'ada@example.test' }, { at: 'email', by: 'case' }],
    [rule('realm_access.roles', 'a'), { realm_access: { roles: ['b'] } }, { at: '/realm_access/roles', by: 'name' }],
    [
      rule('roles', 'a'),
      { resource_access: { gatehouse: { roles: ['a'] } } },
      { at: '/resource_access/gatehouse/roles', by: 'value' },
    ],
    [rule('realm_access', 'a'), { realm_access: { roles: ['a'] } }, { at: '/realm_access/roles', by: 'value' }],
    // A claim that users set themselves is not suggested for its value, nor one of the token.
    [GROUPS, { name: 'staff', nickname: 'owners', address: { region: 'staff' }, acr: 'staff' }, undefined],
    [GROUPS, { groups: ['guests'], nested: { groups: ['others'] } }, undefined],
    [GROUPS, { groups: [{ name: 'staff' }] }, undefined],
    // Names that no page should repeat.
    [GROUPS, { 'a b': { roles: ['staff'] } }, undefined],
    [GROUPS, { ['x'.repeat(201)]: ['staff'] }, undefined],
    [GROUPS, { '\u202eroles': ['staff'] }, undefined],
    [GROUPS, { '4111111111111111': ['staff'] }, undefined],
  ])('%j with %j is found at %j', (given, claims, elsewhere) => {
    expect(observe(claimsWith(claims), given).elsewhere).toEqual(elsewhere);
  });

  test('in little time, however many spaces a value has and however many values there are', () => {
    const spaces = ' '.repeat(300_000);
    expect(observe(claimsWith({ groups: `x${spaces}x` }), GROUPS).seen).toBe('other_values');
    expect(observe(claimsWith({ groups: `${spaces}staff${spaces}` }), GROUPS).seen).toBe('alike');
    const values = Array.from({ length: 100 }, (_, index) => `value-${index}`);
    const groups = Array.from({ length: 80_000 }, (_, index) => `${index}`);
    expect(observe(claimsWith({ groups }), rule('groups', ...values)).seen).toBe('other_values');
  });

  test('in little memory, however long the names are and however many claims they contain', () => {
    const members = Object.fromEntries(Array.from({ length: 20_000 }, (_, index) => [`a${index}`, index]));
    const claims = claimsWith({ ['n'.repeat(100_000)]: members, x: { ['/'.repeat(100_000)]: members } });
    const heap = () => process.memoryUsage().heapUsed;
    const before = heap();
    expect(observe(claims, GROUPS)).toEqual({ claim: 'groups', seen: 'absent', elsewhere: undefined });
    expect(heap() - before).toBeLessThan(100_000_000);
  });

  test('without a value of the claims, at any depth of them', () => {
    const deep = JSON.parse(`${'{"a":'.repeat(10_000)}["staff"]${'}'.repeat(10_000)}`);
    const observation = observe(claimsWith({ groups: ['private-1'], roles: { x: 'private-2' }, deep }), GROUPS);
    const texts = [JSON.stringify(observation), observationWords(observation), observationAdvice(observation)];
    expect(texts.join()).not.toContain('private');
    expect(observationWords(observation)).toBe('the claim “groups” has none of the values of the rule');
  });
});
