/** Client registration at a provider (RFC 7591): the request, each response, and the deletion (RFC 7592). */
import { beforeEach, describe, expect, test } from 'vitest';
import {
  createDynamicRegistration,
  type RequestedClient,
} from '../../../src/gatehouse/connected-apps/dynamic-registration.ts';
import { type Outbound, OutboundError } from '../../../src/shared/outbound/outbound.ts';

const ENDPOINT = 'https://provider.test/register';
const REQUESTED: RequestedClient = {
  name: 'Reports',
  callbackUrls: ['https://gatehouse.test/oauth/callback/reports'],
  scopes: ['openid', 'profile'],
  tokenEndpointAuthMethod: 'client_secret_basic',
  postLogoutUrl: 'https://gatehouse.test/',
  backchannelLogoutUrl: 'https://gatehouse.test/oauth/backchannel-logout/reports',
  jwksUrl: 'https://gatehouse.test/.well-known/jwks.json',
};
const MANAGEMENT_MEMBERS = {
  registration_client_uri: 'https://provider.test/register/c1',
  registration_access_token: 'rat-1',
};

interface SentRequest {
  url: string;
  method: string;
  headers: Record<string, string>;
  body: Record<string, unknown> | undefined;
}

let sent: SentRequest[];
let responses: (Response | Error)[];
beforeEach(() => {
  sent = [];
  responses = [];
});

const outbound = {
  async fetch(
    url: string,
    { method, headers, body }: { method: string; headers: Record<string, string>; body?: string },
  ) {
    sent.push({ url, method, headers, body: body === undefined ? undefined : JSON.parse(body) });
    const response = responses.shift() ?? Response.json({});
    if (response instanceof Error) throw response;
    return response;
  },
} as unknown as Outbound;
const { register, withdraw } = createDynamicRegistration({ outbound });

/** Registers a client at a provider that responds with this body. */
const registerWithResponse = (body: unknown, status = 201, requested = REQUESTED) => {
  responses.push(Response.json(body, { status }));
  return register(ENDPOINT, requested, undefined);
};

describe('the request', () => {
  test('describes the app as RFC 7591 and OpenID Connect name it', async () => {
    await registerWithResponse({});
    expect(sent).toEqual([
      {
        url: ENDPOINT,
        method: 'POST',
        headers: { accept: 'application/json', 'content-type': 'application/json' },
        body: {
          client_name: 'Reports',
          redirect_uris: ['https://gatehouse.test/oauth/callback/reports'],
          post_logout_redirect_uris: ['https://gatehouse.test/'],
          backchannel_logout_uri: 'https://gatehouse.test/oauth/backchannel-logout/reports',
          backchannel_logout_session_required: true,
          response_types: ['code'],
          grant_types: ['authorization_code', 'refresh_token'],
          token_endpoint_auth_method: 'client_secret_basic',
          scope: 'openid profile',
        },
      },
    ]);
  });

  test('has the initial access token as a bearer token, if there is one', async () => {
    await register(ENDPOINT, REQUESTED, 'iat-1');
    expect(sent[0]?.headers.authorization).toBe('Bearer iat-1');
  });

  test('has our key set only for private_key_jwt', async () => {
    await registerWithResponse({}, 201, { ...REQUESTED, tokenEndpointAuthMethod: 'private_key_jwt' });
    expect(sent[0]?.body).toMatchObject({ jwks_uri: REQUESTED.jwksUrl });
  });
});

describe('a registered client', () => {
  test.each([200, 201])('is read from a response with status %i', async (status) => {
    expect(await registerWithResponse({ client_id: 'c1', client_secret: 's1' }, status)).toEqual({
      client: {
        clientId: 'c1',
        clientSecret: 's1',
        clientSecretExpiresAt: undefined,
        tokenEndpointAuthMethod: 'client_secret_basic',
        management: undefined,
      },
    });
  });

  test('uses the authentication method that the provider chose', async () => {
    const { client } = await registerWithResponse({ client_id: 'c1', token_endpoint_auth_method: 'none' });
    expect(client).toMatchObject({ tokenEndpointAuthMethod: 'none', clientSecret: undefined });
  });

  test.each([
    [0, undefined],
    [undefined, undefined],
    [1_900_000_000, 1_900_000_000_000],
    [8_640_000_000_000, 8_640_000_000_000_000],
    [8_640_000_000_001, undefined],
    [-1, undefined],
    [1.5, undefined],
    ['1900000000', undefined],
  ])('with client_secret_expires_at %j: the secret expires at %s', async (client_secret_expires_at, expiresAt) => {
    const { client } = await registerWithResponse({ client_id: 'c1', client_secret: 's1', client_secret_expires_at });
    expect(client?.clientSecretExpiresAt).toBe(expiresAt);
  });

  test.each<[string, object, object | undefined]>([
    ['by a URL and a token', {}, { url: 'https://provider.test/register/c1', token: 'rat-1' }],
    ['not without a token', { registration_access_token: undefined }, undefined],
    ['not with a token that no header can hold', { registration_access_token: 'rat 1' }, undefined],
    ['not at another host', { registration_client_uri: 'https://elsewhere.test/register/c1' }, undefined],
    ['not at another port', { registration_client_uri: 'https://provider.test:8443/register/c1' }, undefined],
    [
      'not without TLS if the registration endpoint has it',
      { registration_client_uri: 'http://provider.test/register/c1' },
      undefined,
    ],
  ])('R79 can be deleted %s', async (_description, changes, management) => {
    const { client } = await registerWithResponse({
      client_id: 'c1',
      client_secret: 's1',
      ...MANAGEMENT_MEMBERS,
      ...changes,
    });
    expect(client?.management).toEqual(management);
    expect(sent).toHaveLength(1);
  });
});

describe('a response that is not a registration', () => {
  const TOKEN_NEEDED = 'The provider requires an initial access token, or does not accept this one.';
  const STATEMENT_NEEDED = 'The provider requires a software statement: register the app there by hand.';
  test.each<[number, unknown, string]>([
    [401, {}, TOKEN_NEEDED],
    [403, { error: 'invalid_redirect_uri' }, TOKEN_NEEDED],
    [400, { error: 'invalid_redirect_uri' }, 'The provider does not accept the callback URLs.'],
    [
      400,
      { error: 'invalid_client_metadata' },
      'The provider does not accept part of the registration, such as the scopes or the authentication method.',
    ],
    [400, { error: 'invalid_software_statement' }, STATEMENT_NEEDED],
    [400, { error: 'unapproved_software_statement' }, STATEMENT_NEEDED],
    [
      400,
      { error: 'other', error_description: 'not repeated' },
      'The provider refused to register the app (status 400).',
    ],
    [429, { error: 'slow_down' }, 'The provider limits the rate of our calls (429). Try again later.'],
    [500, null, 'The provider refused to register the app (status 500).'],
    [202, { client_id: 'c1', client_secret: 's1' }, 'The provider refused to register the app (status 202).'],
    [201, { client_secret: 's1' }, 'The response of the provider is not a client registration.'],
    [201, { client_id: '' }, 'The response of the provider is not a client registration.'],
    [201, { client_id: 'c'.repeat(501) }, 'The response of the provider is not a client registration.'],
    [201, { client_id: 'c1', client_secret: '' }, 'The response of the provider is not a client registration.'],
    [201, [], 'The response of the provider is not a client registration.'],
    [
      201,
      { client_id: 'c1' },
      'The provider registered the app but issued no client secret: register it there by hand.',
    ],
    [
      201,
      { client_id: 'c1', token_endpoint_auth_method: 'client_secret_post' },
      'The provider registered the app but issued no client secret: register it there by hand.',
    ],
    [
      201,
      { client_id: 'c1', token_endpoint_auth_method: 'tls_client_auth' },
      'The response of the provider is not a client registration.',
    ],
  ])('status %i, %j', async (status, body, fault) => {
    expect(await registerWithResponse(body, status)).toEqual({ fault });
    expect(sent).toHaveLength(1);
  });

  test('is a fault if it is not JSON', async () => {
    responses.push(new Response('<p>Welcome</p>', { status: 201 }));
    const fault = 'The response of the provider is not a client registration.';
    expect(await register(ENDPOINT, REQUESTED, undefined)).toEqual({ fault });
  });

  test('RFC 7592: a client that cannot be used is deleted at once', async () => {
    expect((await registerWithResponse({ client_id: 'c1', ...MANAGEMENT_MEMBERS })).fault).toContain(
      'no client secret',
    );
    expect(sent.slice(1)).toEqual([
      {
        url: MANAGEMENT_MEMBERS.registration_client_uri,
        method: 'DELETE',
        headers: { accept: 'application/json', authorization: 'Bearer rat-1' },
        body: undefined,
      },
    ]);
  });

  test('RFC 7592: nothing is deleted if the provider refused to register', async () => {
    expect((await registerWithResponse({ ...MANAGEMENT_MEMBERS }, 400)).fault).toContain('refused');
    expect(sent).toHaveLength(1);
  });
});

describe('a provider that cannot be called', () => {
  const failure = new OutboundError('timeout', 'provider.test:443 did not respond in time', 'Check the firewall.');
  const FAULT = 'The call to the provider failed: provider.test:443 did not respond in time. Check the firewall.';

  test('is a fault of the registration, with the cause and what to do', async () => {
    responses.push(failure);
    expect(await register(ENDPOINT, REQUESTED, undefined)).toEqual({ fault: FAULT });
  });

  test('is named as the cause if the registration cannot be deleted', async () => {
    responses.push(failure);
    expect(await withdraw({ url: `${ENDPOINT}/c1`, token: 'rat-1' })).toEqual({ outcome: 'unreachable', words: FAULT });
  });

  test('other errors are thrown', async () => {
    const error = new TypeError('a bug');
    responses.push(error, error);
    await expect(register(ENDPOINT, REQUESTED, undefined)).rejects.toBe(error);
    await expect(withdraw({ url: `${ENDPOINT}/c1`, token: 'rat-1' })).rejects.toBe(error);
  });
});

test.each([
  [204, { outcome: 'deleted' }],
  [200, { outcome: 'deleted' }],
  [401, { outcome: 'refused', status: 401 }],
  [503, { outcome: 'refused', status: 503 }],
])('RFC 7592: a deletion that the provider responds to with %i', async (status, outcome) => {
  responses.push(new Response(null, { status }));
  expect(await withdraw({ url: `${ENDPOINT}/c1`, token: 'rat-1' })).toEqual(outcome);
});
