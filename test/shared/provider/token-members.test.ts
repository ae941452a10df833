/** Token responses in the variants that providers send: read in one form, or refused. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readTokens, responseMembers } from '../../../src/shared/provider/token-members.ts';

const FORM = 'application/x-www-form-urlencoded';
const TOKENS = { access_token: 'at', token_type: 'Bearer' };

const read = (response: Record<string, unknown>, tokenPath?: string, isOpenId = false) =>
  readTokens(response, { tokenPath, isOpenId });
const members = (response: Record<string, unknown>, tokenPath?: string) => read(response, tokenPath).members;

describe('a body', () => {
  test.each([
    ['{"access_token":"at"}', 'text/html'],
    ['{"access_token":"at"}', FORM],
    ['access_token=at', FORM],
    ['access_token=at', `${FORM.toUpperCase()}; charset=UTF-8`],
    ['access_token=at\n', 'text/plain;charset=utf-8'],
    ['access_token=at', null],
  ])('%j as %s is read', (text, type) => {
    expect(responseMembers(text, type)).toEqual({ access_token: 'at' });
  });

  test.each([
    ['access_token=at', 'text/html'],
    ['access_token=at', 'application/json'],
    ['[]', FORM],
    ['"access_token=at"', 'text/plain'],
    ['{"error":"invalid_grant"', 'text/plain'],
    ['Bad gateway', 'text/plain'],
    ['', null],
  ])('%j as %s has no members', (text, type) => {
    expect(responseMembers(text, type)).toBeUndefined();
  });

  test('is decoded if it is a form with percent-encoding and plus signs', () => {
    expect(responseMembers('access_token=a%2Bb&scope=repo%2Cgist+user&token_type=bearer', FORM)).toEqual({
      access_token: 'a+b',
      scope: 'repo,gist user',
      token_type: 'bearer',
    });
  });
});

describe('the members of RFC 6749 section 5.1', () => {
  test.each<[string, unknown, string | undefined]>([
    ['scope', 'repo,gist', 'repo gist'],
    ['scope', 'a, b  c', 'a b c'],
    ['scope', ['a', 'b c'], 'a b c'],
    ['scope', [], ''],
    ['scope', '', ''],
    ['scope', null, undefined],
    ['token_type', null, 'bearer'],
    ['token_type', '', 'bearer'],
    ['token_type', 'bEaReR', 'bearer'],
    ['token_type', 'bot', 'bearer'],
    ['token_type', 'User', 'bearer'],
    ['token_type', 'DPoP', 'dpop'],
    ['refresh_token', null, undefined],
    ['refresh_token', '', undefined],
  ])('%s %j is read as %s', (name, value, expected) => {
    expect(members({ ...TOKENS, [name]: value })?.[name]).toBe(expected);
  });

  test('a missing token_type is bearer', () => {
    expect(members({ access_token: 'at' })).toMatchObject({ token_type: 'bearer' });
  });

  test.each<[string, unknown, string]>([
    ['access_token', undefined, 'at'],
    ['access_token', '', ''],
    ['access_token', 5, ''],
    ['access_token', 'a\nb', ''],
    ['token_type', 'mac', ''],
    ['token_type', 'bearer token', ''],
    ['token_type', 5, ''],
    ['token_type', ['bearer'], ''],
    ['scope', 7, ''],
    ['scope', ['a', 7], ''],
    ['scope', { a: true }, ''],
    ['refresh_token', 7, ''],
  ])('%s %j is refused, and the fault names the member', (name, value) => {
    expect(read({ ...TOKENS, [name]: value })).toMatchObject({ members: undefined, fault: name });
  });

  test('R32: returns the refresh token of a refused response', () => {
    expect(read({ token_type: 'mac', refresh_token: 'rt' })).toMatchObject({
      fault: 'access_token',
      refreshToken: 'rt',
    });
    expect(read({ u: { scope: 7, refresh_token: 'rt' } }, 'u')).toMatchObject({ refreshToken: 'rt' });
  });

  test.each([
    [{ refresh_token_expires_in: 60 }, 60],
    [{ refresh_expires_in: '60' }, 60],
    [{ x_refresh_token_expires_in: 8_726_400 }, 8_726_400],
    [{ refresh_token_expires_in: 0, x_refresh_token_expires_in: 60 }, 60],
    [{ refresh_token_expires_in: 1e300 }, 31_536_000],
    [{ refresh_expires_in: -5 }, undefined],
    [{ refresh_expires_in: [60] }, undefined],
  ])('reads the lifetime of the refresh token from %j', (lifetimes, seconds) => {
    expect(members({ ...TOKENS, ...lifetimes })?.refresh_token_expires_in).toBe(seconds);
  });

  test('keeps other members of the provider', () => {
    expect(members({ ...TOKENS, instance_url: 'https://a.test', no: null })).toMatchObject({
      instance_url: 'https://a.test',
    });
  });

  test('drops an ID token that was not requested, and requires a requested one to be a string', () => {
    expect(read({ ...TOKENS, id_token: 7 })).toMatchObject({ fault: undefined });
    expect(members({ ...TOKENS, id_token: 'a.b.c' })).not.toHaveProperty('id_token');
    expect(read({ ...TOKENS, id_token: 'a.b.c' }, undefined, true).members).toHaveProperty('id_token', 'a.b.c');
    expect(read({ ...TOKENS, id_token: 7 }, undefined, true)).toMatchObject({ fault: 'id_token' });
  });
});

describe('nested tokens', () => {
  const outer = {
    ok: true,
    team: { id: 'T' },
    access_token: 'bot',
    refresh_token: 'rt-bot',
    scope: 'b',
    expires_in: 5,
  };
  const inner = { access_token: 'user', token_type: 'user', scope: 'chat:write' };

  test('replace all outer tokens', () => {
    const { members: tokens, refreshToken } = read({ ...outer, authed_user: inner }, 'authed_user');
    expect(tokens).toMatchObject({
      access_token: 'user',
      token_type: 'bearer',
      scope: 'chat:write',
      team: { id: 'T' },
    });
    expect([tokens?.refresh_token, tokens?.expires_in, refreshToken]).toEqual([undefined, undefined, undefined]);
  });

  test('can have a path of several names', () => {
    expect(members({ data: { user: inner } }, 'data.user')).toMatchObject({ access_token: 'user' });
  });

  test.each(['authed_user', 'ok', 'ok.token', 'constructor', '__proto__', 'toString.name'])(
    'without an object at %s, the response itself is read',
    (path) => {
      expect(members(outer, path)).toMatchObject({ access_token: 'bot', refresh_token: 'rt-bot' });
    },
  );

  test('are refused without an access token, since the outer token is for another account', () => {
    expect(read({ ...outer, authed_user: { id: 'U' } }, 'authed_user')).toMatchObject({ fault: 'access_token' });
  });
});

const NAMES = [
  'access_token',
  'refresh_token',
  'id_token',
  'token_type',
  'expires_in',
  'scope',
  'error',
  'authed_user',
  'refresh_token_expires_in',
  'refresh_expires_in',
  'x_refresh_token_expires_in',
  '__proto__',
  'constructor',
];
const name = fc.oneof(fc.constantFrom(...NAMES), fc.string());
const text = fc.oneof(
  fc.constantFrom('at', 'Bearer', 'bot', 'DPoP', 'mac', '3600', '-5', '1e300', 'a,b c', ''),
  fc.string({ unit: 'grapheme' }),
);

/** The form that the library and the grants rely on. */
function expectWellFormed(tokens: Record<string, unknown>): void {
  expect(tokens.access_token).toMatch(/^[\x20-\x7e]+$/);
  expect(['bearer', 'dpop']).toContain(tokens.token_type);
  for (const optional of ['refresh_token', 'id_token'])
    expect(tokens[optional] === undefined || (typeof tokens[optional] === 'string' && tokens[optional] !== '')).toBe(
      true,
    );
  if (tokens.scope !== undefined) expect(tokens.scope).toMatch(/^(?:[^\s,]+(?: [^\s,]+)*)?$/);
  for (const lifetime of ['expires_in', 'refresh_token_expires_in']) {
    const seconds = tokens[lifetime];
    if (seconds === undefined) continue;
    expect(Number.isInteger(seconds) && Number(seconds) >= 1 && Number(seconds) <= 31_536_000).toBe(true);
  }
}

function expectReadOrRefused(body: string, type: string, path: string | undefined): void {
  const { members: tokens, fault } = readTokens(responseMembers(body, type) ?? {}, { tokenPath: path, isOpenId: true });
  expect(tokens === undefined).toBe(fault !== undefined);
  if (tokens) expectWellFormed(JSON.parse(JSON.stringify(tokens)));
}

describe('any body', () => {
  const path = fc.constantFrom(undefined, 'authed_user', 'authed_user.scope', '__proto__', 'constructor.prototype');

  test('of JSON is read in the form of the RFC, or refused with the invalid member', () => {
    const members = fc.dictionary(name, fc.oneof(text, fc.jsonValue({ maxDepth: 3 })), { noNullPrototype: true });
    const response = fc.oneof(
      members,
      members.map((inner) => ({ ...TOKENS, authed_user: inner })),
      members.map((more) => ({ ...TOKENS, ...more })),
      fc.jsonValue(),
    );
    fc.assert(fc.property(response, path, (body, at) => expectReadOrRefused(JSON.stringify(body), FORM, at)));
  });

  test('of text is read or refused with any content type', () => {
    const type = fc.constantFrom(FORM, 'text/plain', 'application/json', 'text/html', '', '; x');
    const anything = fc.oneof(fc.string({ unit: 'binary' }), fc.webQueryParameters());
    fc.assert(
      fc.property(anything, type, path, (body, contentType, tokenPath) =>
        expectReadOrRefused(body, contentType, tokenPath),
      ),
    );
  });

  test('of strings is read alike as JSON and as a form', () => {
    const texts = fc.dictionary(name, text, { noNullPrototype: true }).map((more) => ({ access_token: 'at', ...more }));
    fc.assert(
      fc.property(texts, (body) => {
        const asForm = responseMembers(new URLSearchParams(body).toString(), FORM) ?? {};
        const asJson = responseMembers(JSON.stringify(body), 'application/json') ?? {};
        expect(read(asForm, undefined, true)).toEqual(read(asJson, undefined, true));
      }),
    );
  });
});
