/** The user from verified claims: id, permission to sign in, and administrator or not. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  acrOf,
  authTimeOf,
  decidingClaims,
  maySignIn,
  providerSessionIdOf,
  providerSessionOf,
  sessionUser,
} from '../../../src/gatehouse/sign-in/identity.ts';
import { userIdOf } from '../../../src/gatehouse/users/user-id.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';
import type { Claims } from '../../../src/shared/provider/token-response.ts';

const ISSUER = 'https://provider.test';
const appWith = (allow: unknown, id = 'platform') =>
  ({ id, issuer: ISSUER, signIn: allow === undefined ? undefined : { allow } }) as ConnectedApp;
const claimsOf = (more: object) => ({ sub: 's1', iat: 1_800_000_000, ...more }) as Claims;
const ADMIN = { app: 'platform', claim: 'groups', values: ['admins', 'owners'] };
const BY_GROUP = { claim: 'groups', values: ['staff'] };

describe('R19 an id', () => {
  test('is unique for each issuer and subject', () => {
    fc.assert(
      fc.property(fc.tuple(fc.string(), fc.string()), fc.tuple(fc.string(), fc.string()), (one, other) => {
        const same = one[0] === other[0] && one[1] === other[1];
        expect(userIdOf(...one) === userIdOf(...other)).toBe(same);
        expect(providerSessionIdOf(...one) === providerSessionIdOf(...other)).toBe(same);
        expect(userIdOf(...one)).toMatch(/^u[\w-]{22}$/);
      }),
    );
    expect(userIdOf('a', 'bc')).not.toBe(userIdOf('ab', 'c'));
  });
});

describe('R58 the session at the provider', () => {
  test.each([
    ['s1', true],
    ['', false],
    [7, false],
    [null, false],
    [['s1'], false],
    [undefined, false],
  ])('sid %j identifies one: %s', (sid, named) => {
    const session = providerSessionOf(ISSUER, claimsOf({ sid }));
    expect(session.issuedAt).toBe(1_800_000_000);
    expect(session.id).toBe(named ? providerSessionIdOf(ISSUER, 's1') : undefined);
  });
});

describe('who may sign in', () => {
  test.each([
    [undefined, {}, false],
    ['everyone', {}, true],
    [BY_GROUP, { groups: 'staff' }, true],
    [BY_GROUP, { groups: ['guests', 'staff'] }, true],
    [BY_GROUP, { groups: ['guests'] }, false],
    [BY_GROUP, { groups: 'Staff' }, false],
    [BY_GROUP, { groups: ['staffing'] }, false],
    [BY_GROUP, { groups: [['staff']] }, false],
    [BY_GROUP, { groups: { staff: true } }, false],
    [BY_GROUP, {}, false],
    [{ claim: 'constructor', values: ['staff'] }, {}, false],
  ])('by %j with %j: %s', (allow, claims, may) => {
    expect(maySignIn(appWith(allow), claimsOf(claims))).toBe(may);
  });

  test('the deciding claims are that of the app, and that of administrators only at their app', () => {
    expect(decidingClaims(appWith('everyone', 'other'), ADMIN)).toEqual([]);
    expect(decidingClaims(appWith({ claim: 'role', values: [] }, 'other'), ADMIN)).toEqual(['role']);
    expect(decidingClaims(appWith({ claim: 'role', values: [] }), ADMIN)).toEqual(['role', 'groups']);
  });
});

describe('the user of a session', () => {
  const user = (claims: object, app = appWith('everyone')) => sessionUser(app, claimsOf(claims), ADMIN);

  test('is an administrator by the claim, only at the app for administrators', () => {
    expect(user({ groups: ['owners'] }).admin).toBe(true);
    expect(user({ groups: ['staff'] }).admin).toBe(false);
    expect(user({ groups: ['owners'] }, appWith('everyone', 'other')).admin).toBe(false);
    expect(sessionUser(appWith('everyone'), claimsOf({ groups: 'admins' }), { ...ADMIN, app: undefined }).admin).toBe(
      false,
    );
  });

  test('has a name and an e-mail address if these are strings, cut to 200 characters', () => {
    expect(user({ name: ' Ada ', email: 'ada@example.test' })).toMatchObject({
      name: 'Ada',
      email: 'ada@example.test',
    });
    expect(user({ name: '  ', preferred_username: 'ada' }).name).toBe('ada');
    expect(user({ name: 'Ada', preferred_username: 'other' }).name).toBe('Ada');
    expect(user({ name: 7, email: ['ada@example.test'] })).toMatchObject({ name: undefined, email: undefined });
    expect(user({ name: 'x'.repeat(300) }).name).toHaveLength(200);
    expect(user({})).toMatchObject({ id: userIdOf(ISSUER, 's1'), issuer: ISSUER, subject: 's1' });
  });

  test('has the acr of the ID token, if there is one', () => {
    expect(acrOf(claimsOf({ acr: 'mfa' }))).toBe('mfa');
    expect([acrOf(claimsOf({ acr: 2 })), acrOf(claimsOf({})), acrOf(undefined)]).toEqual(Array(3).fill(undefined));
  });

  test.each([
    [1_800_000_000, 1_800_000_000],
    ['1800000000', 1_800_000_000],
    [1, 1],
    [0, undefined],
    [-5, undefined],
    ['yesterday', undefined],
    [undefined, undefined],
  ])('was authenticated at the auth_time %j, which is read as %j', (authTime, time) => {
    expect(authTimeOf(claimsOf({ auth_time: authTime }))).toBe(time);
    expect(authTimeOf(undefined)).toBeUndefined();
  });
});
