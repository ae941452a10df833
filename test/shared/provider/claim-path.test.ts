/** Claims by name or JSON Pointer. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { claimAt, claimNameWarning, pointerTo } from '../../../src/shared/provider/claim-path.ts';

const CLAIMS = {
  groups: ['staff'],
  'realm_access.roles': 'dotted',
  realm_access: { roles: ['admins'] },
  resource_access: { 'my.client': { roles: ['a'] }, 'https://x/y': { 'a~b': 'tilde' } },
  'https://example.com/roles': ['url'],
  '/realm_access/groups': 'slashes',
  none: null,
  list: [{ name: 'first' }, 'second'],
  '': 'empty',
};

describe('a claim', () => {
  test.each([
    ['groups', ['staff']],
    ['/groups', ['staff']],
    ['realm_access.roles', 'dotted'],
    ['/realm_access/roles', ['admins']],
    ['https://example.com/roles', ['url']],
    ['/https:~1~1example.com~1roles', ['url']],
    ['/realm_access/groups', 'slashes'],
    ['/resource_access/my.client/roles', ['a']],
    ['/resource_access/https:~1~1x~1y/a~0b', 'tilde'],
    ['/list/0/name', 'first'],
    ['/list/1', 'second'],
    ['/', 'empty'],
    // RFC 6901, section 4: no leading zeros, and `-` is behind the last entry.
    ['/list/01', undefined],
    ['/list/-', undefined],
    ['/list/length', undefined],
    ['/groups/0/0', undefined],
    ['/resource_access/my~2client', undefined],
    ['none', undefined],
    ['/none', undefined],
    ['missing', undefined],
    ['', 'empty'],
    ['resource_access.my.client.roles', undefined],
    ['constructor', undefined],
    ['/constructor/name', undefined],
    ['/__proto__', undefined],
    ['#/realm_access/roles', undefined],
  ])('%s is %j', (name, value) => {
    expect(claimAt(CLAIMS, name)).toEqual(value);
  });

  test('is found by the pointer to it, whatever its names are', () => {
    fc.assert(
      fc.property(fc.array(fc.string(), { minLength: 1, maxLength: 4 }), (members) => {
        const claims = members.reduceRight<unknown>((value, member) => Object.fromEntries([[member, value]]), 'found');
        expect(claimAt(claims as Record<string, unknown>, pointerTo(members))).toBe('found');
      }),
    );
  });
});

describe('a name that is probably meant as a path', () => {
  test.each([
    ['realm_access.roles', '/realm_access/roles'],
    ['a/b', '/a/b'],
    ['$.realm_access.roles', '/realm_access/roles'],
    ['#/realm_access/roles', '/realm_access/roles'],
    ["resource_access['my-client'].roles", '/resource_access/my-client/roles'],
    ['realm_access->roles', '/realm_access/roles'],
    ['resource_access[gatehouse]', '/resource_access/gatehouse'],
    ['/realm_access//roles', '/realm_access/roles'],
    ['/realm_access/roles/', '/realm_access/roles'],
    ['/a~2b', '/a~02b'],
    ['realm_access roles', '/realm_access/roles'],
    ['com.example.roles', '/com/example/roles'],
    ['/', ', such as /realm_access/roles'],
    ['//', ', such as /realm_access/roles'],
  ])('%s: the warning names %s', (name, path) => {
    expect(claimNameWarning(name)).toContain(`“${name}” is read as the name of one claim.`);
    expect(claimNameWarning(name)).toContain(path);
  });

  test.each([
    'groups',
    '/realm_access/roles',
    '/resource_access/my.client/roles',
    'https://example.com/roles',
    'urn:example:roles',
    'cognito:groups',
    'custom:role',
    'email_verified',
    'x-hasura-role',
  ])('%s: none', (name) => {
    expect(claimNameWarning(name)).toBeUndefined();
  });
});
