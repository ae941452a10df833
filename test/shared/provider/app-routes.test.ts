/** The schema of routes, and pairs that match the same calls. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  appRouteSchema,
  appRoutesSchema,
  areAmbiguous,
  parsePattern,
} from '../../../src/shared/provider/app-routes.ts';

const route = (path: string, changes: object = {}) => ({ name: 'r', method: 'GET' as const, path, ...changes });
const faultPaths = (routes: unknown) =>
  appRoutesSchema.safeParse(routes).error?.issues.map(({ path }) => path.join('/')) ?? [];

describe('the path of a route', () => {
  test.each([
    '/1/threads/{id}',
    '/{a}/{b_2}',
    '/v60.0/users:search',
    '/.well-known/me',
    "/$metadata/x(1)/a'b/a,b;c".slice(0, -2),
    '/a=b&c+d/@me/~u/!x/*',
  ])('may be %s', (path) => {
    expect(appRouteSchema.safeParse(route(path)).success).toBe(true);
  });

  test.each([
    ...['', 'threads', '/', '//a', '/a/', '/a//b', '/a?b', '/a#b', '/a/.', '/a/../b', '/a/%2e%2e/b', '/a;b', '/a\\b'],
    ...['/a b', '/a\u0000', '/ä', '/{id', '/id}', '/x{id}', '/{id}.json', '/{}', '/{1}', '/{a-b}', '/{id}/{id}'],
    ...['https://elsewhere.example.com/a', '/a/*/../{id}', `/${'a'.repeat(200)}`, '/a/\r\nHost: b', '/{id}{other}'],
  ])('may not be %j', (path) => {
    expect(appRouteSchema.safeParse(route(path)).error?.issues[0]?.path).toEqual(['path']);
  });
});

test.each<[string, object, string]>([
  ['a name of another form', { name: 'Thread' }, 'name'],
  ['the name of the current thread', { name: 'current-thread' }, 'name'],
  ['another method', { method: 'HEAD' }, 'method'],
  ['a method in lower case', { method: 'get' }, 'method'],
  ['a query parameter twice', { query: ['a', 'a'] }, 'query'],
  ['a query parameter with a separator', { query: ['a&b'] }, 'query/0'],
  ['a scope twice', { scopes: ['a', 'a'] }, 'scopes'],
  ['a scope with a space', { scopes: ['a b'] }, 'scopes/0'],
  ['an unknown member', { body: true }, ''],
])('a route with %s is refused', (_words, changes, path) => {
  expect(faultPaths([route('/a', changes)])).toEqual([`0${path && `/${path}`}`]);
});

test('an app has at most 20 routes, each with a name of its own', () => {
  const routes = Array.from({ length: 21 }, (_none, index) => route(`/${index}`, { name: `r${index}` }));
  expect(faultPaths(routes.slice(0, 20))).toEqual([]);
  expect(faultPaths(routes)).toEqual(['']);
  expect(faultPaths([route('/a'), route('/b')])).toEqual(['1/name']);
});

describe('two routes that match the same calls', () => {
  test.each([
    ['/a/{x}', '/a/{y}'],
    ['/a', '/a'],
    ['/a/{x}/c', '/a/b/{y}'],
    ['/{x}/b', '/a/{y}'],
  ])('are refused if neither is more specific: %s and %s', (one, other) => {
    expect(faultPaths([route(one), route(other, { name: 'other' })])).toEqual(['1/path']);
    expect(faultPaths([route(one), route(other, { name: 'other', method: 'PUT' })])).toEqual([]);
  });

  test.each([
    ['/a/{x}', '/a/b'],
    ['/{x}/{y}', '/{x}/b'],
    ['/{x}/{y}', '/a/b'],
    ['/a/{x}', '/b/{x}'],
    ['/a/{x}', '/a/{x}/c'],
  ])('are accepted if one is more specific, or no call matches both: %s and %s', (one, other) => {
    expect(faultPaths([route(one), route(other, { name: 'other' })])).toEqual([]);
  });

  const segment = fc.constantFrom('a', 'b', '{x}', '{y}', '{z}');
  const pattern = fc
    .array(segment, { minLength: 1, maxLength: 4 })
    .map((segments) => `/${segments.join('/')}`)
    .filter((path) => parsePattern(path) !== undefined);
  const calls = fc.array(fc.constantFrom('a', 'b', 'c'), { minLength: 1, maxLength: 4 });
  const matchesCall = (path: string, call: readonly string[]) => {
    const segments = parsePattern(path) ?? [];
    return (
      segments.length === call.length &&
      segments.every((part, index) => 'parameter' in part || part.literal === call[index])
    );
  };
  const literalsOf = (path: string) =>
    (parsePattern(path) ?? []).flatMap((part, index) => ('literal' in part ? [index] : []));

  test('are those of which no one has more literals, in every order', () => {
    fc.assert(
      fc.property(pattern, pattern, calls, (one, other, call) => {
        expect(areAmbiguous(route(one), route(other))).toBe(areAmbiguous(route(other), route(one)));
        if (!matchesCall(one, call) || !matchesCall(other, call)) return;
        const [literals, otherLiterals] = [new Set(literalsOf(one)), new Set(literalsOf(other))];
        const isStrictlyMore = (set: Set<number>, subset: Set<number>) =>
          set.isSupersetOf(subset) && set.size > subset.size;
        const hasWinner = isStrictlyMore(literals, otherLiterals) || isStrictlyMore(otherLiterals, literals);
        expect(areAmbiguous(route(one), route(other))).toBe(!hasWinner);
      }),
    );
  });
});
