/** `WWW-Authenticate` (RFC 9110 section 11.6.1), and what a platform demands in it. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { challengesIn } from '../../../src/shared/provider/challenges.ts';
import { readSignInDemand, type SignInDemand, unmetPart } from '../../../src/shared/provider/sign-in-demand.ts';

describe('challenges', () => {
  test.each<[string, ReturnType<typeof challengesIn>]>([
    ['', []],
    ['Basic', [{ scheme: 'basic', parameters: {} }]],
    ['Bearer realm=""', [{ scheme: 'bearer', parameters: { realm: '' } }]],
    ['Bearer error=a, scope="b c"', [{ scheme: 'bearer', parameters: { error: 'a', scope: 'b c' } }]],
    ['bearer Error = "a" ,SCOPE=b', [{ scheme: 'bearer', parameters: { error: 'a', scope: 'b' } }]],
    ['Bearer x="a \\"b\\" \\\\ c, Basic d=e"', [{ scheme: 'bearer', parameters: { x: 'a "b" \\ c, Basic d=e' } }]],
    [
      'Basic realm="x", , DPoP algs="ES256", error="b", Bearer error="c"',
      [
        { scheme: 'basic', parameters: { realm: 'x' } },
        { scheme: 'dpop', parameters: { algs: 'ES256', error: 'b' } },
        { scheme: 'bearer', parameters: { error: 'c' } },
      ],
    ],
    ['Bearer error="a", error="b"', [{ scheme: 'bearer', parameters: { error: 'a' } }]],
    ['error="a"', []],
    [
      'Bearer error="never closed',
      [
        { scheme: 'bearer', parameters: {} },
        { scheme: 'error', parameters: {} },
      ],
    ],
    ['Bearer realm=, error="a"', [{ scheme: 'bearer', parameters: { error: 'a' } }]],
    ['Bearer <error>="a"', [{ scheme: 'bearer', parameters: {} }]],
    // The credentials of another scheme (token68), which may end in `=` and have slashes.
    ...['a', 'YWI=', 'YQ==', 'a/b+c~-._', '/w=='].map((token): [string, ReturnType<typeof challengesIn>] => [
      `Negotiate ${token}, Bearer error="b"`,
      [
        { scheme: 'negotiate', parameters: {} },
        { scheme: 'bearer', parameters: { error: 'b' } },
      ],
    ]),
  ])('%s', (header, challenges) => {
    expect(challengesIn(header)).toEqual(challenges);
  });

  test('R96 any header is read without an error', () => {
    fc.assert(fc.property(fc.string({ unit: 'binary' }), (header) => Array.isArray(challengesIn(`Bearer ${header}`))));
    for (const hostile of ['a="\\', 'a,', 'a = ', '"', ' a=', ' a/b= ', 'a="', '\\"', ' '.repeat(4)]) {
      expect(challengesIn(`Bearer ${hostile.repeat(8_000)}`).length).toBeGreaterThan(0);
    }
  });
});

const demandIn = (challenge: string, statusCode = 401) =>
  readSignInDemand({ statusCode, headers: { 'www-authenticate': challenge } });
const stepUp = (parameters: string) => demandIn(`Bearer error="insufficient_user_authentication"${parameters}`);
const base64 = (text: string) => Buffer.from(text).toString('base64');
const claims = (text: string) => demandIn(`Bearer realm="", error="insufficient_claims", claims="${text}"`);
const quoted = (text: string) => text.replaceAll(/(["\\])/g, '\\$1');

describe('a demand', () => {
  test.each<[string, SignInDemand]>([
    [', acr_values="mfa"', { acrValues: 'mfa' }],
    [', acr_values=phr', { acrValues: 'phr' }],
    [', acr_values=" urn:a:1  https://a.example/loa#2 "', { acrValues: 'urn:a:1 https://a.example/loa#2' }],
    [', acr_values="a b a"', { acrValues: 'a b' }],
    [', max_age="5"', { maxAgeSeconds: 5 }],
    [', max_age=0', { maxAgeSeconds: 0 }],
    [', error_description="x, acr_values=\\"y\\"", acr_values="z", max_age=9', { acrValues: 'z', maxAgeSeconds: 9 }],
    ['', { maxAgeSeconds: 0 }],
    [', error_description="sign in again"', { maxAgeSeconds: 0 }],
    [`, acr_values="${'a'.repeat(500)}"`, { acrValues: 'a'.repeat(500) }],
  ])('of another sign-in: %s', (parameters, demand) => {
    expect(stepUp(parameters)).toEqual(demand);
  });

  test.each([
    ', acr_values=""',
    ', acr_values="  "',
    `, acr_values="${'a'.repeat(501)}"`,
    `, acr_values="${Array.from({ length: 11 }, (_, n) => `a${n}`).join(' ')}"`,
    ', acr_values="a\tb"',
    ', acr_values="\u00e9"',
    ', acr_values="a\\"b"',
    ', acr_values="a&prompt=none", max_age="-1"',
    ', max_age="1.5"',
    ', max_age="soon"',
    ', max_age=""',
    ', max_age="1e3"',
    `, max_age="${'9'.repeat(10)}"`,
  ])('in a form that is not allowed cannot be met: %s', (parameters) => {
    expect(stepUp(parameters)).toBe('unusable');
  });

  const ACRS = '{"access_token":{"acrs":{"essential":true,"value":"c1"}}}';
  test.each([
    ['in base64', base64(ACRS)],
    ['in base64url, without padding', Buffer.from(ACRS).toString('base64url')],
    ['as JSON', quoted(ACRS)],
    ['as JSON with spaces', quoted('{ "access_token" : {"acrs": {"essential": true, "value": "c1"} } }')],
  ])('of claims %s', (_form, text) => {
    expect(claims(text)).toEqual({ claims: ACRS });
  });

  test.each([
    ['nothing', ''],
    ['no JSON', base64('not JSON')],
    ['a list', base64('["a"]')],
    ['no member', base64('{}')],
    ['a letter beyond ASCII', base64('{"id_token":{"\u00e9":null}}')],
    ['a control character', base64('{"a":"\\u0007"}').replace('=', '=')],
    ['too many characters', base64(JSON.stringify({ a: 'b'.repeat(1_000) }))],
    ['very many characters', base64(JSON.stringify({ a: 'b'.repeat(20_000) }))],
  ])('of claims with %s cannot be met', (form, text) => {
    // JSON escapes a control character, so it is printable.
    expect(claims(text)).toEqual(form === 'a control character' ? { claims: '{"a":"\\u0007"}' } : 'unusable');
  });

  test('is in a challenge for an access token only, with 401 or 403', () => {
    const challenge = 'error="insufficient_user_authentication", acr_values="a"';
    expect(demandIn(`DPoP algs="ES256", ${challenge}`, 403)).toEqual({ acrValues: 'a' });
    expect(demandIn(`Negotiate abc==, Bearer ${challenge}`)).toEqual({ acrValues: 'a' });
    for (const status of [200, 302, 400, 404, 429, 500, 503]) {
      expect(demandIn(`Bearer ${challenge}`, status), String(status)).toBeUndefined();
    }
    expect(demandIn(`Digest ${challenge}`)).toBeUndefined();
    expect(
      demandIn('Bearer error="invalid_token", error_description="insufficient_user_authentication"'),
    ).toBeUndefined();
    expect(readSignInDemand({ statusCode: 401, headers: {} })).toBeUndefined();
  });
});

describe('an ID token', () => {
  const NOW = 1_800_000_000_000;
  const seconds = NOW / 1000;
  const unmet = (demand: SignInDemand, idToken: object) =>
    unmetPart(demand, { sub: 'u', ...idToken }, { requestedAt: NOW - 60_000, now: NOW });

  test.each<[SignInDemand, object, ReturnType<typeof unmet>]>([
    [{ acrValues: 'mfa' }, { acr: 'mfa' }, undefined],
    [{ acrValues: 'phrh mfa' }, { acr: 'mfa' }, undefined],
    [{ acrValues: 'mfa' }, { acr: 'pwd' }, 'acr'],
    [{ acrValues: 'mfa' }, { acr: 'MFA' }, 'acr'],
    [{ acrValues: 'mfa' }, { acr: ['mfa'] }, 'acr'],
    [{ acrValues: 'mfa' }, { acr: '' }, 'acr'],
    [{ acrValues: 'mfa' }, {}, 'acr'],
    [{ acrValues: 'phr mfa' }, { acr: 'phr mfa' }, 'acr'],
    [{ maxAgeSeconds: 300 }, { auth_time: seconds - 360 }, undefined],
    [{ maxAgeSeconds: 300 }, { auth_time: seconds - 390 }, undefined],
    [{ maxAgeSeconds: 300 }, { auth_time: seconds - 391 }, 'auth_time'],
    [{ maxAgeSeconds: 0 }, { auth_time: seconds - 50 }, undefined],
    [{ maxAgeSeconds: 0 }, { auth_time: seconds - 91 }, 'auth_time'],
    [{ maxAgeSeconds: 0 }, { auth_time: seconds + 60 }, undefined],
    [{ maxAgeSeconds: 0 }, { auth_time: seconds + 61 }, 'auth_time'],
    [{ maxAgeSeconds: 300 }, { auth_time: 0 }, 'auth_time_missing'],
    [{ maxAgeSeconds: 300 }, { auth_time: String(seconds) }, 'auth_time_missing'],
    [{ maxAgeSeconds: 300 }, {}, 'auth_time_missing'],
    [{ acrValues: 'mfa', maxAgeSeconds: 300 }, { acr: 'mfa', auth_time: seconds }, undefined],
    [{ acrValues: 'mfa', maxAgeSeconds: 300 }, { acr: 'mfa' }, 'auth_time_missing'],
    [{ claims: '{"access_token":{}}' }, {}, undefined],
  ])('for the demand %j: %j lacks %s', (demand, idToken, part) => {
    expect(unmet(demand, idToken)).toBe(part);
  });
});
