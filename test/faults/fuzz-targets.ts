/** Generates hostile targets: routes with invalid parameters, and targets that are not routes. */
import fc from 'fast-check';
import { anyText } from '../support/any-text.ts';
import { ADMIN_ROUTES, ROUTES } from '../support/routes.ts';

const EVERY_ROUTE = [...ROUTES, ...ADMIN_ROUTES];
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'M-SEARCH', 'get', 'GE T', ''];
const MARKS = `%00 % %E0%A4 ..%2f %2e%2e ..; // \\ ' "><script> ; & = ? # [] {} * 😀 é ﬀ \u202e`.split(' ');
const WORDS = 'platform elsewhere enable true null NaN -1 1e309 toString constructor __proto__ not_found'.split(' ');
const LONG_TEXTS = ['9'.repeat(400), 'a'.repeat(5_000)];
const NUMBERS = ['45717360', '4571%2036', '457173600', '4571736000000000'];
export const hostileText = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...MARKS, ...WORDS, ...LONG_TEXTS, ...NUMBERS) },
  { weight: 3, arbitrary: fc.string({ maxLength: 40 }) },
  { weight: 1, arbitrary: anyText(40) },
  // NUL and white space end the request line or make it invalid.
  { weight: 1, arbitrary: fc.constantFrom('\u0000', '\r\n', ' ', '\t', '\n') },
);
const encoded = hostileText.map((text) => encodeURIComponent(text.toWellFormed()));

export interface Target {
  method: string;
  path: string;
}

const seldom = <T>(arbitrary: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 6, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary });

/** A route, usually with hostile parameters, sometimes with another method. */
const onRoute: fc.Arbitrary<Target> = fc
  .record({
    route: fc.constantFrom(...EVERY_ROUTE),
    method: seldom(fc.constantFrom(...METHODS)),
    values: fc.option(
      fc.array(fc.oneof({ weight: 8, arbitrary: encoded }, hostileText), { minLength: 3, maxLength: 3 }),
    ),
  })
  .map(({ route, method, values }) => {
    const remaining = [...(values ?? [])];
    const path = values ? route.pattern.replace(/:\w+/g, () => remaining.pop() ?? '') : route.path;
    return { method: method ?? route.method, path };
  });

export const target: fc.Arbitrary<Target> = fc.oneof(
  { weight: 8, arbitrary: onRoute },
  {
    weight: 1,
    arbitrary: fc.tuple(fc.constantFrom(...METHODS), hostileText).map(([method, path]) => ({ method, path })),
  },
  { weight: 1, arbitrary: encoded.map((text) => ({ method: 'GET', path: `/${text}` })) },
);

/** Names of parameters of the routes. */
export const NAMES =
  `app return_to scope q after limit format audience state code iss error error_description _csrf bin bins id name apps
  users scopes version issuer clientId clientSecret callbackUrls apiToken overlapSeconds expiresAt url kinds`.split(
    /\s+/,
  );
export const pair = fc.tuple(fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...NAMES) }, hostileText), hostileText);

export const wellFormed = (pairs: readonly [string, string][]): [string, string][] =>
  pairs.map(([name, value]) => [name.toWellFormed(), value.toWellFormed()]);

export const query = fc.oneof(
  { weight: 2, arbitrary: fc.constant('') },
  {
    weight: 3,
    arbitrary: fc.array(pair, { maxLength: 6 }).map((pairs) => `?${new URLSearchParams(wellFormed(pairs))}`),
  },
  {
    weight: 1,
    arbitrary: fc
      .array(pair, { maxLength: 120 })
      .map((pairs) => `?${pairs.map(([name, value]) => `${name}=${value}`).join('&')}`),
  },
);
