/** The user from verified claims: id, permission to sign in, and administrator or not. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  acrOf,
  authTimeOf,
  claimsWithUserinfo,
  decidingClaims,
  maySignIn,
  providerSessionIdOf,
  providerSessionOf,
  sessionUser,
} from '../../../src/gatehouse/sign-in/identity.ts';
import { userIdOf } from '../../../src/gatehouse/users/user-id.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';
import type { Claims, TokenResponse } from '../../../src/shared/provider/token-response.ts';

const ISSUER = 'https://provider.test';
const appWith = (allow: unknown, id = 'platform') =>
  ({ id, issuer: ISSUER, signIn: allow === undefined ? undefined : { allow } }) as ConnectedApp;
const NOW_SECONDS = 1_800_000_000;
const claimsWith = (claims: object) => ({ sub: 's1', iat: NOW_SECONDS, ...claims }) as Claims;
const ADMIN = { app: 'platform', claim: 'groups', values: ['admins', 'owners'] };
const BY_GROUP = { claim: 'groups', values: ['staff'] };

describe('R19 an id', () => {
  test('is unique for each issuer and subject', () => {
    fc.assert(
      fc.property(fc.tuple(fc.string(), fc.string()), fc.tuple(fc.string(), fc.string()), (first, second) => {
        const isSame = first[0] === second[0] && first[1] === second[1];
        expect(userIdOf(...first) === userIdOf(...second)).toBe(isSame);
        expect(providerSessionIdOf(...first) === providerSessionIdOf(...second)).toBe(isSame);
        expect(userIdOf(...first)).toMatch(/^u[\w-]{22}$/);
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
  ])('is identified by the sid %j: %s', (sid, isIdentified) => {
    const session = providerSessionOf(ISSUER, claimsWith({ sid }));
    expect(session.issuedAt).toBe(NOW_SECONDS);
    expect(session.id).toBe(isIdentified ? providerSessionIdOf(ISSUER, 's1') : undefined);
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
  ])('by the rule %j with the claims %j: %s', (allow, claims, isAllowed) => {
    expect(maySignIn(appWith(allow), claimsWith(claims))).toBe(isAllowed);
  });

  test('is decided by the claim of the app, and at the app for administrators also by theirs', () => {
    const claims = claimsWith({ email: 'ada@example.test' });
    const byAddress = { ...ADMIN, claim: 'email', values: ['Ada@example.test'] };
    expect(decidingClaims(appWith('everyone', 'other'), ADMIN, claims)).toEqual([]);
    expect(decidingClaims(appWith({ claim: 'role', values: [] }, 'other'), ADMIN, claims)).toEqual(['role']);
    expect(decidingClaims(appWith({ claim: 'role', values: [] }), ADMIN, claims)).toEqual(['role', 'groups']);
    // Whether an address is verified matters only for one of the rule.
    expect(decidingClaims(appWith('everyone'), byAddress, claims)).toEqual(['email', 'email_verified']);
    expect(decidingClaims(appWith('everyone'), byAddress, claimsWith({ email: 'bo@example.test' }))).toEqual(['email']);
  });
});

describe('claims of userinfo', () => {
  const withUserinfo = (idToken: object, userinfo: object, admin = ADMIN) =>
    claimsWithUserinfo(
      { provider: { userinfo: async () => ({ sub: 's1', ...userinfo }) }, admin },
      appWith('everyone'),
      { claims: claimsWith(idToken) } as TokenResponse,
    );
  const BY_ADDRESS = { app: 'platform', claim: 'email', values: ['ada@example.test'] };

  test('add what the ID token lacks, also within its objects', async () => {
    const admin = { ...ADMIN, claim: '/realm_access/roles' };
    const idToken = { realm_access: { verify_caller: true }, groups: null, name: 'Ada' };
    const userinfo = { realm_access: { roles: ['admins'], verify_caller: false }, groups: ['staff'], name: 'Other' };
    const claims = await withUserinfo(idToken, userinfo, admin);
    expect(claims).toMatchObject({
      realm_access: { roles: ['admins'], verify_caller: true },
      groups: ['staff'],
      name: 'Ada',
    });
    expect(sessionUser(appWith('everyone'), claims as Claims, admin).admin).toBe(true);
  });

  test.each<[idToken: object, userinfo: object, admin: boolean]>([
    [{ email: 'ada@example.test' }, { email: 'ada@example.test', email_verified: true }, true],
    [{}, { email: 'ada@example.test', email_verified: true }, true],
    [{ email: 'ada@example.test', email_verified: true }, { email: 'bo@example.test', email_verified: false }, true],
    [{ email: 'ada@example.test' }, { email: 'bo@example.test', email_verified: true }, false],
    [{ email: 'ada@example.test' }, { email_verified: true }, false],
    [{ email: 'ada@example.test', email_verified: false }, { email: 'ada@example.test', email_verified: true }, false],
    [{ email_verified: true }, { email: 'ada@example.test' }, false],
    [{ email_verified: true }, { email: 'ada@example.test', email_verified: false }, false],
  ])('R19 verify only the address that they come with: %j and %j make an administrator: %s', async (...row) => {
    const [idToken, userinfo, admin] = row;
    const claims = (await withUserinfo(idToken, userinfo, BY_ADDRESS)) as Claims;
    expect(sessionUser(appWith('everyone'), claims, BY_ADDRESS).admin).toBe(admin);
  });
});

describe('the user of a session', () => {
  const userWith = (claims: object, app = appWith('everyone')) => sessionUser(app, claimsWith(claims), ADMIN);

  test('is an administrator by the claim, only at the app for administrators', () => {
    expect(userWith({ groups: ['owners'] }).admin).toBe(true);
    expect(userWith({ groups: ['staff'] }).admin).toBe(false);
    expect(userWith({ groups: ['owners'] }, appWith('everyone', 'other')).admin).toBe(false);
    expect(sessionUser(appWith('everyone'), claimsWith({ groups: 'admins' }), { ...ADMIN, app: undefined }).admin).toBe(
      false,
    );
  });

  test('has a name and an e-mail address if these are strings, cut to 200 characters', () => {
    expect(userWith({ name: ' Ada ', email: 'ada@example.test' })).toMatchObject({
      name: 'Ada',
      email: 'ada@example.test',
    });
    expect(userWith({ name: '  ', preferred_username: 'ada' }).name).toBe('ada');
    expect(userWith({ name: 'Ada', preferred_username: 'other' }).name).toBe('Ada');
    expect(userWith({ name: 7, email: ['ada@example.test'] })).toMatchObject({ name: undefined, email: undefined });
    expect(userWith({ name: 'x'.repeat(300) }).name).toHaveLength(200);
    expect(userWith({})).toMatchObject({ id: userIdOf(ISSUER, 's1'), issuer: ISSUER, subject: 's1' });
  });

  test('has the acr of the ID token, if there is one', () => {
    expect(acrOf(claimsWith({ acr: 'mfa' }))).toBe('mfa');
    expect([acrOf(claimsWith({ acr: 2 })), acrOf(claimsWith({})), acrOf(undefined)]).toEqual(Array(3).fill(undefined));
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
    expect(authTimeOf(claimsWith({ auth_time: authTime }))).toBe(time);
    expect(authTimeOf(undefined)).toBeUndefined();
  });
});
