/** Facts about a provider for the form of a new app. */
import { expect, test, vi } from 'vitest';
import { createProviderFacts } from '../../../src/gatehouse/connected-apps/provider-facts.ts';
import type { AddressRule } from '../../../src/shared/outbound/address-policy.ts';
import { OutboundError } from '../../../src/shared/outbound/outbound.ts';
import { addressError, asOutboundError } from '../../../src/shared/outbound/outbound-error.ts';
import { ProviderError } from '../../../src/shared/provider/provider-error.ts';
import type { ProviderLocation, ProviderMetadata } from '../../../src/shared/provider/provider-metadata.ts';

const ISSUER = 'https://provider.test';
const loadedLocations: ProviderLocation[] = [];
const examine = vi.fn(async () => undefined as never);
const readFacts = (metadataOrError: object | Error, discoveryUrl?: string) =>
  createProviderFacts({
    examine,
    metadata: {
      load: async (location) => {
        loadedLocations.push(location);
        if (metadataOrError instanceof Error) throw metadataOrError;
        return metadataOrError as ProviderMetadata;
      },
    },
  })({ issuer: ISSUER, discoveryUrl });

test('lists the endpoints, scopes, authentication methods and protections, and the registration endpoint', async () => {
  const { facts } = await readFacts({
    token_endpoint: `${ISSUER}/token`,
    jwks_uri: `${ISSUER}/jwks`,
    authorization_endpoint: `${ISSUER}/auth`,
    scopes_supported: ['openid', 'read:all'],
    token_endpoint_auth_methods_supported: ['none', 'client_secret_basic'],
    registration_endpoint: `${ISSUER}/register`,
    code_challenge_methods_supported: ['plain', 'S256'],
    require_pushed_authorization_requests: true,
    backchannel_logout_supported: true,
    dpop_signing_alg_values_supported: ['ES256'],
  });
  expect(facts).toEqual({
    endpoints: ['authorization', 'token', 'signing keys'],
    scopes: ['openid', 'read:all'],
    authMethods: ['none', 'client_secret_basic'],
    pkce: true,
    par: 'required',
    dpop: true,
    backchannelLogout: true,
    registrationEndpoint: `${ISSUER}/register`,
  });
});

test('drops invalid scopes, and limits the lists', async () => {
  const invalidScopes = ['a b', 'a"b', 'a\\b', '', 'x'.repeat(201), 'é', 7, null, ['openid']];
  expect((await readFacts({ scopes_supported: [...invalidScopes, 'openid'] })).facts?.scopes).toEqual(['openid']);

  const sixtyScopes = Array.from({ length: 60 }, (_, index) => `scope-${index}`);
  expect((await readFacts({ scopes_supported: sixtyScopes })).facts?.scopes).toHaveLength(40);
});

test('ignores members of the wrong type', async () => {
  const metadata = { scopes_supported: 'openid', token_endpoint_auth_methods_supported: {}, registration_endpoint: 7 };
  expect((await readFacts(metadata)).facts).toEqual({
    endpoints: [],
    scopes: [],
    authMethods: [],
    pkce: undefined,
    par: undefined,
    dpop: false,
    backchannelLogout: false,
    registrationEndpoint: undefined,
  });
});

test('says whether pushed requests are offered, and whether PKCE with S256 is', async () => {
  expect((await readFacts({ pushed_authorization_request_endpoint: `${ISSUER}/par` })).facts?.par).toBe('offered');
  expect((await readFacts({ code_challenge_methods_supported: ['plain'] })).facts?.pkce).toBe(false);
});

test('reads the metadata of the issuer, or at the discovery URL, whose address it examines', async () => {
  await readFacts({});
  expect(loadedLocations.at(-1)).toEqual({ issuer: ISSUER });
  await readFacts({}, `${ISSUER}/elsewhere`);
  expect(loadedLocations.at(-1)).toEqual({ issuer: ISSUER, discoveryUrl: `${ISSUER}/elsewhere` });
  expect(examine.mock.calls).toContainEqual([`${ISSUER}/elsewhere`]);
});

const refusedAddress = (rule: AddressRule) => addressError(ISSUER, rule);

test.each([
  [new ProviderError('misconfigured', 'issuer_mismatch'), /names another issuer\./],
  [
    new ProviderError('misconfigured', 'issuer_mismatch', { issuer: `${ISSUER}/` }),
    /names another issuer: enter https:\/\/provider\.test\/ if you trust it/,
  ],
  [
    new ProviderError('misconfigured', 'issuer_mismatch', { issuer: `${ISSUER}/{tenantid}` }),
    /for many tenants\. Enter the issuer of one tenant or, to name several below, https:\/\/provider\.test\/\{tenantid\} with/,
  ],
  [
    new ProviderError('unavailable', 'discovery_failed', { status: 404 }),
    /no provider metadata.*\(it responded with 404\)\. If/,
  ],
  [
    new ProviderError('unavailable', 'discovery_failed', { status: 429, limited: true }),
    /^The provider limits the rate of our calls \(429\)\. Try again later\.$/,
  ],
  [new ProviderError('unavailable', 'discovery_failed'), /no provider metadata at this address\. If/],
  [new ProviderError('invalid', 'discovery_not_json'), /is not provider metadata\.$/],
  [new ProviderError('misconfigured', 'endpoint_refused', { endpoint: 'token' }), /must not be called \(token\)\.$/],
  [new ProviderError('misconfigured', 'endpoint_refused'), /must not be called\.$/],
  [new ProviderError('misconfigured', 'endpoint_missing'), /enter them by hand/],
  [
    new ProviderError('misconfigured', 'endpoint_refused', {
      endpoint: 'token',
      cause: refusedAddress('private_address'),
    }),
    /call to the provider failed: the address policy refuses provider\.test:443 \(private_address\)\. .* INTERNAL_HOSTS/,
  ],
  [ProviderError.from(refusedAddress('private_address')), /policy refuses provider\.test:443.*INTERNAL_HOSTS/],
  [
    ProviderError.from(asOutboundError(new Error('late'), ISSUER, { aborted: true })),
    /provider\.test:443 did not respond in time\. Check that this server can reach it/,
  ],
  [
    ProviderError.from(new OutboundError('too_large', 'the response is larger than 9 bytes')),
    /^The call to the provider failed: the response is larger than 9 bytes\.$/,
  ],
  [new Error('secret of a library'), /^The provider’s metadata cannot be read\.$/],
])('says why the facts cannot be read: %s', async (error, text) => {
  const { fault, facts } = await readFacts(error);
  expect(facts).toBeUndefined();
  expect(fault).toMatch(text);
  expect(fault).toMatch(/^\p{Lu}.{15,}\.$/u);
});

test('shortens a long issuer in its text, and does not offer one that is too long to enter', async () => {
  const issuerOfLength = (length: number) => `${ISSUER}/`.padEnd(length, 'x');
  const readWithIssuer = (issuer: string) =>
    readFacts(new ProviderError('misconfigured', 'issuer_mismatch', { issuer }));

  const { fault, issuer } = await readWithIssuer(issuerOfLength(2_000));
  expect(fault).toContain(`enter ${issuerOfLength(200)} if you trust it`);
  expect(issuer).toHaveLength(2_000);

  expect((await readWithIssuer(issuerOfLength(2_001))).issuer).toBeUndefined();
});

test('R79 an address that must not be called is not called', async () => {
  loadedLocations.length = 0;
  examine.mockResolvedValueOnce('not_https' as never);
  const { fault } = await readFacts({});
  expect(fault).toMatch(/^It must begin with https/);
  expect(loadedLocations).toEqual([]);
});
