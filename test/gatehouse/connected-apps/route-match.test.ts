/** The route of a call: what is matched, what is sent, and what reaches nothing. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { matchCall, routesOf } from '../../../src/gatehouse/connected-apps/route-match.ts';
import { type AppRoute, appRoutesSchema } from '../../../src/shared/provider/app-routes.ts';
import { HOSTILE_SEGMENTS } from '../../support/hostile-paths.ts';

const appOf = (...routes: Partial<AppRoute>[]) => ({
  apiBaseUrl: 'https://platform.test',
  threadPath: '/1/threads/current',
  routes: appRoutesSchema.parse(routes.map((route, index) => ({ name: `r${index}`, method: 'GET', ...route }))),
});
const APP = appOf(
  { name: 'thread', path: '/1/threads/{id}', query: ['fields', 'page[size]'] },
  { name: 'rename', path: '/1/threads/{id}', method: 'PATCH' },
  { name: 'drafts', path: '/1/threads/drafts' },
  { name: 'search', path: '/1/users:search/{a}/{b}' },
);
const match = (target: string, method = 'GET', app = APP) => {
  const { route, path } = matchCall(app, method, target);
  return `${route.name} ${path}`;
};
const refusalOf = (target: string, method = 'GET', app = APP) => {
  try {
    return match(target, method, app);
  } catch (error) {
    return error as { code: string; detail: string; headers: Record<string, string> };
  }
};

test('the current thread is among the routes, and comes first', () => {
  expect(routesOf(APP).map(({ name }) => name)).toEqual(['current-thread', 'thread', 'rename', 'drafts', 'search']);
  expect(match('/1/threads/current')).toBe('current-thread /1/threads/current');
});

test('an app without a platform has no routes', () => {
  const app = { ...APP, apiBaseUrl: undefined };
  expect(routesOf(app)).toEqual([]);
  expect(() => matchCall(app, 'GET', '/1/threads/current')).toThrow(expect.objectContaining({ code: 'not_found' }));
});

test.each([
  ['/1/threads/17', 'thread /1/threads/17'],
  ['/1/threads/drafts', 'drafts /1/threads/drafts'],
  ['/1/threads/a%20b', 'thread /1/threads/a%20b'],
  ['/%31/%74hreads/%31%37', 'thread /1/threads/17'],
  ['/1/threads/%C3%A4', 'thread /1/threads/%C3%A4'],
  ['/1/threads/a:b@c', 'thread /1/threads/a%3Ab%40c'],
  ['/1/threads/a%23b%3Fc', 'thread /1/threads/a%23b%3Fc'],
  ['/1/users:search/x/...', 'search /1/users:search/x/...'],
  ['/1/users%3Asearch/x/y', 'search /1/users:search/x/y'],
  ['/1/threads/17?', 'thread /1/threads/17'],
  ['/1/threads/17?fields=a,b', 'thread /1/threads/17?fields=a%2Cb'],
  ['/1/threads/17?fields=a+b%20c%2Bd', 'thread /1/threads/17?fields=a+b%20c%2Bd'],
  ['/1/threads/17?page%5Bsize%5D=2&fields', 'thread /1/threads/17?page%5Bsize%5D=2&fields'],
  ['/1/threads/17?fields=a%26other%3Db;other=c', 'thread /1/threads/17?fields=a%26other%3Db%3Bother%3Dc'],
])('%s is the call %s', (target, expected) => {
  expect(match(target)).toBe(expected);
});

test('HEAD matches as GET does, and a route of another method may have the same path', () => {
  expect(match('/1/threads/17', 'HEAD')).toBe('thread /1/threads/17');
  expect(match('/1/threads/17', 'PATCH')).toBe('rename /1/threads/17');
  expect(match('/1/threads/drafts', 'PATCH')).toBe('rename /1/threads/drafts');
});

test.each([
  ['POST', '/1/threads/17', 'GET, HEAD, PATCH'],
  ['DELETE', '/1/users:search/a/b', 'GET, HEAD'],
  ['patch', '/1/threads/17', 'GET, HEAD, PATCH'],
])('another method is refused: %s %s', (method, target, allowed) => {
  expect(refusalOf(target, method)).toMatchObject({ code: 'method_not_allowed', headers: { Allow: allowed } });
});

test.each([
  ['a parameter that the route lacks', '?limit=1', /fields, page\[size\]/],
  ['a declared one and another', '?fields=a&limit=1', /fields, page\[size\]/],
  ['a parameter twice', '?fields=a&fields=b', /"fields" once/],
  ['a parameter twice, encoded', '?fields=a&%66ields=b', /"fields" once/],
  ['a name in another case', '?Fields=a', /fields/],
  ['a name with a null character', '?fields%00=a', /fields/],
  ['a value that is no UTF-8', '?fields=%ff', /"fields" in UTF-8/],
  ['a value with a bare percent sign', '?fields=50%', /"fields" in UTF-8/],
  ['a value with a byte that needs an escape', '?fields=\u00e4', /"fields" in UTF-8/],
])('a query with %s is refused', (_words, query, detail) => {
  expect(refusalOf(`/1/threads/17${query}`)).toMatchObject({
    code: 'invalid_request',
    detail: expect.stringMatching(detail),
  });
});

test.each([
  '',
  '/',
  '/1',
  '/1/threads',
  '/1/threads/17/',
  '/1//threads/17',
  '//1/threads/17',
  '/1/Threads/17',
  '1/threads/17',
])('%j has no route', (target) => {
  expect(refusalOf(target)).toMatchObject({ code: 'not_found' });
});

describe('R74 nothing but a declared route is reached', () => {
  test.each(HOSTILE_SEGMENTS)('by the segment %j', (segment) => {
    const targets = [`/1/threads/${segment}`, `/1/${segment}/threads/17`, `/${segment}/1/threads/17`];
    for (const target of targets) expect(refusalOf(target)).toMatchObject({ code: 'not_found' });
  });

  const app = appOf({ path: '/a/{x}' }, { path: '/a/b/{x}', query: ['q', 'p'] });
  const text = fc.oneof(
    fc.constantFrom(
      'a',
      'b',
      '.',
      '..',
      '/',
      '%2f',
      '%2e',
      '%',
      '%25',
      ';',
      '\\',
      '?',
      'q=',
      '&',
      '#',
      '%00',
      '@',
      ':',
    ),
    fc.string({ maxLength: 3 }),
    fc.string({ maxLength: 2, unit: 'binary' }).map((value) => encodeURIComponent(value.toWellFormed())),
  );
  const target = fc.array(text, { maxLength: 12 }).map((texts) => `/a/${texts.join('')}`);

  test('by any target: what is sent has the segments of the pattern, and stays what it is in a URL', () => {
    fc.assert(
      fc.property(target, (sent) => {
        const result = refusalOf(sent, 'GET', app);
        if (typeof result !== 'string') {
          expect(['not_found', 'invalid_request']).toContain(result.code);
          return;
        }
        const path = result.slice(result.indexOf(' ') + 1);
        const url = new URL(`https://platform.example.com/base${path}`);
        expect(url.href).toBe(`https://platform.example.com/base${path}`);
        expect(url.hash).toBe('');
        expect(decodeURIComponent(url.pathname)).toMatch(/^\/base\/a\/(b\/)?[^/\\;%\p{Cc}]+$/u);
        const names = [...url.searchParams.keys()];
        expect(names.every((name) => ['q', 'p'].includes(name))).toBe(true);
        expect(new Set(names).size).toBe(names.length);
      }),
      { numRuns: 2_000 },
    );
  });

  const parameter = fc.string({ minLength: 1, maxLength: 20, unit: 'grapheme' }).filter((value) => {
    const normalized = value.normalize('NFKC');
    const isOnlyDots = /^\.{0,2}$/.test(normalized.replaceAll(/[\s\p{Default_Ignorable_Code_Point}]/gu, ''));
    return !isOnlyDots && !/[/\\;%\p{Cc}\u2044\u2215\u2216\u00a5\u20a9]/u.test(normalized + value);
  });

  test('and every other text passes as a parameter and in the query, unchanged', () => {
    fc.assert(
      fc.property(parameter, fc.string({ unit: 'grapheme' }), (value, queryValue) => {
        const path = `/a/b/${encodeURIComponent(value)}?q=${encodeURIComponent(queryValue)}`;
        expect(matchCall(app, 'GET', path).path).toBe(path);
      }),
    );
  });
});
