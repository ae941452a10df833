/** Rules over several fields of a registration: each fault with its pointer, rule and advice. */
import { describe, expect, test } from 'vitest';
import { problemsIn, warningsIn } from '../../../src/gatehouse/connected-apps/finding.ts';
import {
  addressFaults,
  calledUrls,
  coherenceFaults,
} from '../../../src/gatehouse/connected-apps/registration-rules.ts';
import { providerUrls } from '../../../src/shared/provider/connected-app.ts';
import {
  acceptedIssuers,
  firstIssuer,
  isSameIssuer,
  issuerOf,
  namedTenants,
} from '../../../src/shared/provider/issuer.ts';

const SIGN_IN = { allow: 'everyone' as const };
const TENANTS = { allow: { claim: 'tid', values: ['ink', 'book'] } };
const ENDPOINTS = { authorization: 'https://idp.test/a', token: 'https://idp.test/t' };
const TEMPLATE = { issuer: 'https://idp.test/{tenantid}', discoveryUrl: 'https://idp.test/metadata' };
const API_HOSTS = { member: 'instance_url' as const, hosts: ['.api.test'] };
const NAME_TENANTS =
  'with {tenantid} in the issuer, name the tenants whose users may sign in, by their claim "tid": {"allow": {"claim": "tid", "values": ["TENANT ID"]}}.';

/** @param faultyFields fields that have a fault of their own */
const faultsOf = (app: object, faultyFields: string[] = []) =>
  coherenceFaults(app as Parameters<typeof coherenceFaults>[0], (field) => faultyFields.includes(field));

describe('fields that need each other', () => {
  test.each<[string, object, [pointer: string, detail: string][]]>([
    ['nothing', {}, []],
    ['a sign-in with openid', { signIn: SIGN_IN, scopes: ['openid'] }, []],
    [
      'a sign-in without openid',
      { signIn: SIGN_IN, scopes: ['profile'] },
      [['#/scopes', 'an app for sign-in must be an OpenID provider and request the scope "openid".']],
    ],
    [
      'hosts of an API without a URL',
      { apiBaseUrlFrom: API_HOSTS },
      [['#/apiBaseUrl', 'enter it, too: it is called if a token response names no other.']],
    ],
    ['hosts of an API with a URL', { apiBaseUrlFrom: API_HOSTS, apiBaseUrl: 'https://api.test' }, []],
    [
      'an authorization endpoint without a token endpoint',
      { endpoints: { authorization: ENDPOINTS.authorization } },
      [['#/endpoints/token', 'enter it together with authorization.']],
    ],
    [
      'a token endpoint without an authorization endpoint',
      { endpoints: { token: ENDPOINTS.token } },
      [['#/endpoints/authorization', 'enter it together with token.']],
    ],
    ['both endpoints', { endpoints: ENDPOINTS }, []],
    [
      'a sign-in with endpoints set by hand, without keys',
      { signIn: SIGN_IN, scopes: ['openid'], endpoints: ENDPOINTS },
      [['#/endpoints/jwks', 'needed to verify the ID tokens of an app for sign-in.']],
    ],
    [
      'a sign-in with endpoints and keys set by hand',
      { signIn: SIGN_IN, scopes: ['openid'], endpoints: { ...ENDPOINTS, jwks: 'https://idp.test/jwks' } },
      [],
    ],
    [
      'a sign-in with endpoints set by hand and a discovery URL',
      { signIn: SIGN_IN, scopes: ['openid'], endpoints: ENDPOINTS, discoveryUrl: 'https://idp.test/metadata' },
      [],
    ],
    [
      'an account without a URL',
      { account: { field: 'id' }, endpoints: ENDPOINTS },
      [['#/account/url', 'needed if no userinfo endpoint is known.']],
    ],
    ['an account with a URL', { account: { field: 'id', url: 'https://api.test/me' }, endpoints: ENDPOINTS }, []],
    [
      'an account and a userinfo endpoint',
      { account: { field: 'id' }, endpoints: { ...ENDPOINTS, userinfo: 'https://idp.test/u' } },
      [],
    ],
    [
      'an account with endpoints set by hand and a discovery URL',
      { account: { field: 'id' }, endpoints: ENDPOINTS, discoveryUrl: 'https://idp.test/metadata' },
      [],
    ],
    ['an account and discovery', { account: { field: 'id' } }, []],
    ['an issuer template with tenants', { ...TEMPLATE, signIn: TENANTS, scopes: ['openid'] }, []],
    ['an issuer template without a rule', TEMPLATE, [['#/signIn', NAME_TENANTS]]],
    [
      'an issuer template for members of groups',
      { ...TEMPLATE, signIn: { allow: { claim: 'groups', values: ['staff'] } }, scopes: ['openid'] },
      [['#/signIn', NAME_TENANTS]],
    ],
    [
      'an issuer template with an invalid tenant ID',
      { ...TEMPLATE, signIn: { allow: { claim: 'tid', values: ['ink', 'a/b'] } }, scopes: ['openid'] },
      [['#/signIn/allow/values/1', 'the id of a tenant is 1 to 64 letters, digits and "-".']],
    ],
    [
      'an issuer template without a discovery URL',
      { issuer: TEMPLATE.issuer, signIn: TENANTS, scopes: ['openid'] },
      [['#/discoveryUrl', 'with {tenantid} in the issuer, enter the address of the metadata for all tenants.']],
    ],
    [
      'an issuer template with endpoints set by hand',
      {
        issuer: TEMPLATE.issuer,
        signIn: TENANTS,
        scopes: ['openid'],
        endpoints: { ...ENDPOINTS, jwks: 'https://idp.test/jwks' },
      },
      [],
    ],
  ])('%s', (_description, app, faults) => {
    expect(faultsOf(app)).toEqual(faults.map(([pointer, detail]) => ({ pointer, rule: 'incomplete', detail })));
  });

  test('a field with a fault of its own is not reported as incomplete', () => {
    expect(faultsOf({ signIn: SIGN_IN }, ['scopes'])).toEqual([]);
    expect(faultsOf({ apiBaseUrlFrom: API_HOSTS }, ['apiBaseUrl'])).toEqual([]);
    expect(faultsOf({ issuer: TEMPLATE.issuer }, ['signIn', 'discoveryUrl'])).toEqual([]);
  });

  test('RFC 8707: resources are set in one field only', () => {
    const parameters = { parameters: { resource: 'a', audience: 'b' }, tokenParameters: { resource: 'a' } };
    const detail = 'remove it: the resources that the app declares are sent.';
    expect(faultsOf({ ...parameters, resources: ['https://api.test/'] })).toEqual([
      { pointer: '#/parameters/resource', rule: 'twice', detail },
      { pointer: '#/tokenParameters/resource', rule: 'twice', detail },
    ]);
    expect(faultsOf(parameters)).toEqual([]);
    expect(faultsOf({ parameters: { audience: 'b' }, resources: ['https://api.test/'] })).toEqual([]);
  });
});

test('R79 checks every called URL, and reports faults with their fields', async () => {
  const app = {
    issuer: 'https://idp.test',
    discoveryUrl: 'https://idp.test/metadata',
    apiBaseUrl: 'https://10.0.0.1',
    endpoints: ENDPOINTS,
    account: { field: 'id', url: 'https://10.0.0.1/me' },
  };
  expect(calledUrls(app)).toEqual([
    [['issuer'], 'https://idp.test'],
    [['discoveryUrl'], 'https://idp.test/metadata'],
    [['endpoints', 'authorization'], 'https://idp.test/a'],
    [['endpoints', 'token'], 'https://idp.test/t'],
    [['apiBaseUrl'], 'https://10.0.0.1'],
    [['account', 'url'], 'https://10.0.0.1/me'],
  ]);
  expect(calledUrls({})).toEqual([]);

  const faults = await addressFaults(app, async (url) => (url.includes('10.0.0.1') ? 'private_address' : undefined));
  const detail = 'the address is private: add the host to INTERNAL_HOSTS if it may be called.';
  expect(faults).toEqual([
    { pointer: '#/apiBaseUrl', rule: 'private_address', detail },
    { pointer: '#/account/url', rule: 'private_address', detail },
  ]);
});

describe('the issuers of an app', () => {
  const APP = { issuer: 'https://idp.test' };
  const TEMPLATE_APP = { issuer: TEMPLATE.issuer, signIn: TENANTS };

  test('are the registered issuer, or those of the named tenants', () => {
    expect(acceptedIssuers({ ...APP, signIn: TENANTS })).toEqual(['https://idp.test']);
    expect(acceptedIssuers(TEMPLATE_APP)).toEqual(['https://idp.test/ink', 'https://idp.test/book']);
    expect(acceptedIssuers({ issuer: TEMPLATE.issuer, signIn: SIGN_IN })).toEqual([]);
  });

  test('are none for a template whose sign-in rule names no tenants', () => {
    for (const signIn of [SIGN_IN, undefined, { allow: { claim: 'groups', values: ['a'] } }]) {
      expect(namedTenants({ signIn })).toEqual([]);
    }
  });

  test('are, before the tenant is known, the issuer of the callback if it is accepted, or the first one', () => {
    expect(firstIssuer(TEMPLATE_APP, 'https://idp.test/book')).toBe('https://idp.test/book');
    expect(firstIssuer(TEMPLATE_APP, 'https://idp.test/other')).toBe('https://idp.test/ink');
    expect(firstIssuer(TEMPLATE_APP, null)).toBe('https://idp.test/ink');
    expect(firstIssuer({ issuer: TEMPLATE.issuer })).toBe(TEMPLATE.issuer);
  });

  test('are, for a user, that of the tenant, which is part of the user id', () => {
    const claims = { iss: 'https://idp.test/book' };
    expect(issuerOf(TEMPLATE_APP, claims)).toBe('https://idp.test/book');
    expect(issuerOf(APP, claims)).toBe('https://idp.test');

    const userOfBook = { issuer: 'https://idp.test/book' };
    const userOfInk = { issuer: 'https://idp.test/ink' };
    expect(isSameIssuer(TEMPLATE_APP, userOfBook, userOfInk)).toBe(false);
    expect(isSameIssuer(TEMPLATE_APP, userOfBook, userOfBook)).toBe(true);
    expect(isSameIssuer(APP, userOfBook, userOfInk)).toBe(true);
  });
});

test('lists the URLs to register at a provider', () => {
  expect(providerUrls('platform', 'https://gatehouse.test')).toEqual({
    callback: 'https://gatehouse.test/oauth/callback/platform',
    postLogout: 'https://gatehouse.test/',
    backchannelLogout: 'https://gatehouse.test/oauth/backchannel-logout/platform',
    jwks: 'https://gatehouse.test/.well-known/jwks.json',
  });
});

test('separates problems from warnings, which are inconclusive checks with advice', () => {
  const finding = (result: 'passed' | 'failed' | 'unknown', advice?: string) => ({
    check: 'tls' as const,
    result,
    detail: 'Seen.',
    ...(advice !== undefined && { advice }),
  });
  const problem = finding('failed', 'Do.');
  const warning = finding('unknown', 'Look.');
  const findings = [finding('passed'), problem, finding('unknown'), warning];

  expect(problemsIn(findings)).toEqual([problem]);
  expect(warningsIn(findings)).toEqual([warning]);
});
