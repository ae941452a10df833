/** The parameters of an authorization request, and whether it is pushed. */
import { describe, expect, test } from 'vitest';
import {
  type AuthorizationRequest,
  authorizationParameters,
  isPushed,
} from '../../../src/shared/provider/authorization-request.ts';
import { clientAuthentication } from '../../../src/shared/provider/client-credentials.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';
import type { ProviderMetadata } from '../../../src/shared/provider/provider-metadata.ts';
import { withResources } from '../../../src/shared/provider/resources.ts';

const appOf = (changes: object = {}) =>
  ({ id: 'platform', issuer: 'https://idp.test', clientId: 'c1', par: 'auto', ...changes }) as ConnectedApp;
const serverOf = (members: object = {}) => ({ issuer: 'https://idp.test', ...members }) as ProviderMetadata;
const REQUEST: AuthorizationRequest = {
  redirectUri: 'https://gatehouse.test/oauth/callback/platform',
  state: 'state-1',
  nonce: 'nonce-1',
  codeVerifier: 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk',
  scopes: ['openid', 'profile'],
};
const parametersOf = (changes: Partial<AuthorizationRequest> = {}, app: object = {}, server: object = {}) =>
  authorizationParameters(appOf(app), serverOf(server), { ...REQUEST, ...changes });

describe('the parameters of an authorization request', () => {
  test('are those of the protocol, with the challenge of RFC 7636 appendix B', () => {
    expect(parametersOf()).toEqual({
      redirect_uri: REQUEST.redirectUri,
      scope: 'openid profile',
      state: 'state-1',
      nonce: 'nonce-1',
      code_challenge: 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM',
      code_challenge_method: 'S256',
    });
  });

  test('have a nonce only if an ID token is expected', () => {
    expect(parametersOf({ scopes: ['profile'] })).not.toHaveProperty('nonce');
  });

  test('have the requested prompt, authentication context, age and hints', () => {
    const parameters = parametersOf({
      prompt: 'login',
      acrValues: 'mfa',
      maxAgeSeconds: 0,
      hints: { login_hint: 'ada' },
    });
    expect(parameters).toMatchObject({ prompt: 'login', acr_values: 'mfa', max_age: '0', login_hint: 'ada' });
  });

  test('R3: parameters of the app do not replace those of the protocol', () => {
    const parameters = { audience: 'api', login_hint: 'fixed', state: 'fixed' };
    const sent = parametersOf({ hints: { login_hint: 'ada' } }, { parameters });
    expect(sent).toMatchObject({ audience: 'api', login_hint: 'ada', state: 'state-1' });
  });

  test.each<[string, unknown, string]>([
    ['select_account', undefined, 'select_account'],
    ['select_account', ['login', 'select_account'], 'select_account'],
    ['select_account', ['none', 'login'], 'login'],
    ['select_account', 'login', 'select_account'],
    ['consent select_account', ['login', 'consent'], 'consent login'],
    ['login select_account', ['login'], 'login'],
    ['consent', ['login'], 'consent'],
  ])('sends prompt %s to a provider that lists %j as %s', (prompt, prompt_values_supported, sent) => {
    expect(parametersOf({ prompt }, {}, { prompt_values_supported }).prompt).toBe(sent);
  });
});

describe('pushed authorization requests', () => {
  const ENDPOINT = { pushed_authorization_request_endpoint: 'https://idp.test/par' };

  test.each<[string, unknown, boolean]>([
    ['auto', true, true],
    ['auto', false, false],
    ['auto', 'true', false],
    ['auto', undefined, false],
    ['required', undefined, true],
    ['off', true, false],
  ])(
    'with par %s, required by the provider: %j, a request is pushed: %s',
    (par, require_pushed_authorization_requests, pushed) => {
      const members = { ...ENDPOINT, require_pushed_authorization_requests };
      expect(isPushed(appOf({ par }), serverOf(members))).toBe(pushed);
    },
  );

  test.each(['required', 'auto'])('par %s fails without an endpoint', (par) => {
    const server = serverOf({ require_pushed_authorization_requests: true });
    expect(() => isPushed(appOf({ par }), server)).toThrow('misconfigured: par_endpoint_missing');
    expect(isPushed(appOf({ par: 'off' }), server)).toBe(false);
  });
});

describe('RFC 8707: the resources in a request', () => {
  const app = { resources: ['https://api.test/', 'urn:example:reports'] };

  test('are all resources of the app, or only the requested one, next to the other parameters', () => {
    expect(withResources(app, { tenant: 'a b' }).toString()).toBe(
      'tenant=a+b&resource=https%3A%2F%2Fapi.test%2F&resource=urn%3Aexample%3Areports',
    );
    expect(withResources(app, undefined, 'https://other.test/').getAll('resource')).toEqual(['https://other.test/']);
    expect(withResources({}, { a: '1' }).toString()).toBe('a=1');
  });
});

describe('client authentication', () => {
  const server = { issuer: 'https://idp.test', token_endpoint: 'https://idp.test/token' };
  const apply = async (changes: object, ownKeys?: Parameters<typeof clientAuthentication>[1]) => {
    const [body, headers] = [new URLSearchParams(), new Headers()];
    await clientAuthentication(appOf(changes), ownKeys)(server as never, { client_id: 'c1' } as never, body, headers);
    return { body: Object.fromEntries(body), headers: Object.fromEntries(headers) };
  };

  test.each<[string, object, object]>([
    ['client_secret_basic', {}, { authorization: `Basic ${btoa('c1:s1')}` }],
    ['client_secret_post', { client_id: 'c1', client_secret: 's1' }, {}],
    ['none', { client_id: 'c1' }, {}],
  ])('by %s', async (tokenEndpointAuthMethod, body, headers) => {
    expect(await apply({ tokenEndpointAuthMethod, clientSecret: 's1' })).toEqual({ body, headers });
  });

  test('form-encodes a secret with special characters, except for "~"', async () => {
    const { headers } = await apply({ tokenEndpointAuthMethod: 'client_secret_basic', clientSecret: 'a:b c~é+' });
    expect(atob(headers.authorization?.slice(6) ?? '')).toBe('c1:a%3Ab+c~%C3%A9%2B');
  });

  test.each([
    ['https://idp.test', 'https://idp.test'],
    // An issuer template names no issuer, so the audience is the token endpoint.
    ['https://idp.test/{tenantid}', 'https://idp.test/token'],
  ])('by a signed assertion at the provider %s', async (issuer, aud) => {
    const signed: unknown[] = [];
    const sign = async (...parameters: unknown[]) => {
      signed.push(parameters);
      return 'signed';
    };
    const { body } = await apply({ issuer, tokenEndpointAuthMethod: 'private_key_jwt' }, { sign });
    expect(body).toMatchObject({
      client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
      client_assertion: 'signed',
    });
    expect(signed).toEqual([
      [
        { iss: 'c1', sub: 'c1', aud },
        { typ: 'JWT', seconds: 60 },
      ],
    ]);
  });

  test('by a signed assertion fails without keys', () => {
    const app = appOf({ tokenEndpointAuthMethod: 'private_key_jwt' });
    expect(() => clientAuthentication(app, undefined)).toThrow('misconfigured: own_keys_missing');
  });
});
