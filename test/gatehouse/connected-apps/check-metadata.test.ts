/** The doctor's findings from the provider's metadata. A missing member is no problem: the result is "cannot tell". */
import { describe, expect, test } from 'vitest';
import { checkMetadata } from '../../../src/gatehouse/connected-apps/check-metadata.ts';
import { CHECKS, type CheckName } from '../../../src/gatehouse/connected-apps/finding.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';
import type { ProviderMetadata } from '../../../src/shared/provider/provider-metadata.ts';

const appOf = (changes: object = {}) =>
  ({ scopes: ['openid', 'profile'], providerSignOut: true, signIn: { allow: 'everyone' }, ...changes }) as ConnectedApp;
const findingOf = (check: CheckName, metadata: object, app = appOf()) =>
  checkMetadata(app, metadata as ProviderMetadata).find((finding) => finding.check === check);

const CASES: [
  check: CheckName,
  metadata: object,
  result: 'passed' | 'failed' | 'unknown',
  detail: RegExp,
  appChanges?: object,
][] = [
  ['algorithms', {}, 'unknown', /does not say/],
  ['algorithms', { id_token_signing_alg_values_supported: ['none', 'HS256'] }, 'failed', /no signature with a public/],
  ['algorithms', { id_token_signing_alg_values_supported: ['RS256', 'none'] }, 'passed', /RS256/],
  ['algorithms', { id_token_signing_alg_values_supported: 'RS256' }, 'unknown', /does not say/],
  ['pkce', {}, 'unknown', /sent anyway/],
  ['pkce', { code_challenge_methods_supported: ['plain', 'S256'] }, 'passed', /S256/],
  ['pkce', { code_challenge_methods_supported: ['plain'] }, 'failed', /S256 is not among them/],
  ['iss', {}, 'unknown', /does not promise/],
  ['iss', { authorization_response_iss_parameter_supported: 'true' }, 'unknown', /does not promise/],
  ['iss', { authorization_response_iss_parameter_supported: true }, 'passed', /RFC 9207/],
  ['scopes', {}, 'unknown', /which scopes it knows/],
  ['scopes', { scopes_supported: ['profile', 'openid', 'email'] }, 'passed', /every scope/],
  ['scopes', { scopes_supported: ['openid'] }, 'unknown', /not list: profile\.$/],
  ['scopes', { scopes_supported: [7] }, 'unknown', /not list: openid profile\.$/],
  ['scopes', { scopes_supported: ['openid'] }, 'unknown', /not list: api\.read\.$/, { scopes: ['openid', 'api.read'] }],
  [
    'scopes',
    { scopes_supported: ['openid'] },
    'unknown',
    /: offline_access\.$/,
    { scopes: ['openid', 'offline_access'] },
  ],
  ['end_session', {}, 'unknown', /leaves users signed in there/],
  ['end_session', { end_session_endpoint: 'https://a.example/' }, 'passed', /also signs out/],
  ['end_session', {}, 'passed', /switched off/, { providerSignOut: false }],
  ['backchannel_logout', {}, 'unknown', /does not say/],
  ['backchannel_logout', { backchannel_logout_supported: 'yes' }, 'unknown', /does not say/],
  ['backchannel_logout', { backchannel_logout_supported: true }, 'passed', /all sessions of a user/],
  [
    'backchannel_logout',
    { backchannel_logout_supported: true, backchannel_logout_session_supported: true },
    'passed',
    /single sessions/,
  ],
  ['backchannel_logout', {}, 'passed', /not used for sign-in/, { signIn: undefined }],
];

test.each(CASES)('%s of %j is %s: %s', (check, metadata, result, detail, appChanges) => {
  const finding = findingOf(check, metadata, appOf(appChanges));
  expect(finding?.result).toBe(result);
  expect(finding?.detail).toMatch(detail);
  expect(finding?.detail).toMatch(/^\p{Lu}.{10,}\.$/u);
});

describe('findings', () => {
  test('have advice for each problem, and the field that causes it', () => {
    for (const [check, metadata, result] of CASES) {
      if (result === 'failed') expect(findingOf(check, metadata)?.advice).toMatch(/^\p{Lu}.{20,}\.$/u);
    }
    expect(findingOf('scopes', { scopes_supported: [] })?.pointer).toBe('#/scopes');
    expect(findingOf('end_session', {})).toMatchObject({
      advice: expect.stringMatching(/endpoints\.endSession/),
      pointer: '#/endpoints/endSession',
    });
  });

  test('are one for each check; an app without OpenID Connect has none for ID tokens', () => {
    const checksOf = (app: ConnectedApp) => checkMetadata(app, {} as ProviderMetadata).map(({ check }) => check);
    const checksOfEachApp = ['pkce', 'iss', 'scopes', 'end_session', 'backchannel_logout'];
    expect(checksOf(appOf())).toEqual(['algorithms', ...checksOfEachApp]);
    expect(checksOf(appOf({ scopes: ['profile'] }))).toEqual(checksOfEachApp);
    for (const name of checksOf(appOf())) expect(CHECKS).toHaveProperty(name);
  });
});
