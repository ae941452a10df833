/** The outcome of a refresh for each response, over HTTP. */
import { describe, expect, test } from 'vitest';
import type { RefreshOutcome } from '../../../src/shared/provider/token-refresh.ts';
import { status } from '../../support/broken-responses.ts';
import type { Mode } from '../../support/hostile-modes.ts';
import type { ModeName } from '../../support/hostile-provider.ts';
import { useProtocol } from './protocol.ts';

const protocol = useProtocol();

describe('R40: refresh, classified by status and body', () => {
  /** Refreshes once while the provider is in these modes, and returns the outcome. */
  const refreshUnder = async (...modes: (ModeName | Mode)[]): Promise<RefreshOutcome> => {
    const { refreshToken = '' } = await protocol.logIn();
    protocol.provider.setModes(...modes);
    return protocol.client.refresh(protocol.app, { refreshToken });
  };
  const responding = (code: number, body: unknown): Mode => ({ responses: { refresh: status(code, body) } });

  test.each<[number, unknown, RefreshOutcome['kind']]>([
    [400, { error: 'invalid_grant' }, 'refused'],
    [401, { error: 'invalid_grant' }, 'refused'],
    [403, { error: 'invalid_grant' }, 'refused'],
    [400, { error: 'invalid_grant', error_description: 'x', extra: 1 }, 'refused'],
    [429, { error: 'invalid_grant' }, 'unavailable'],
    [408, { error: 'invalid_grant' }, 'unavailable'],
    [500, { error: 'invalid_grant' }, 'unavailable'],
    [503, { error: 'invalid_grant' }, 'unavailable'],
    [200, { error: 'invalid_grant' }, 'unclear_refusal'],
    [200, { error: 'bad_refresh_token', error_description: 'x' }, 'unclear_refusal'],
    [200, { ok: false, error: 'token_expired' }, 'unclear_refusal'],
    [200, { error: 'invalid_client' }, 'app_fault'],
    [302, { error: 'invalid_grant' }, 'unavailable'],
    [400, '{"error":"invalid_grant"', 'unavailable'],
    [400, '<p>invalid_grant</p>', 'unavailable'],
    [400, '', 'unclear_refusal'],
    [400, {}, 'unclear_refusal'],
    [400, { error: ['invalid_grant'] }, 'unclear_refusal'],
    [400, { error: 'INVALID_GRANT' }, 'unclear_refusal'],
    [400, { error: 'invalid_request' }, 'unclear_refusal'],
    [401, { error: 'invalid_request' }, 'unclear_refusal'],
    [403, { error: 'invalid_code' }, 'unclear_refusal'],
    [400, { error: 'invalid_scope' }, 'unclear_refusal'],
    [401, '', 'unclear_refusal'],
    [401, { error: 'invalid_client' }, 'app_fault'],
    [401, { error: 'unauthorized_client' }, 'app_fault'],
    [400, { error: 'unauthorized_client' }, 'unclear_refusal'],
    [403, { error: 'unauthorized_client' }, 'unclear_refusal'],
    [200, { error: 'unauthorized_client' }, 'unclear_refusal'],
    [400, { error: 'unsupported_grant_type' }, 'app_fault'],
    [500, { error: 'invalid_client' }, 'unavailable'],
    [502, '<h1>Bad gateway</h1>', 'unavailable'],
    [200, {}, 'unusable'],
    [200, '<h1>Sign in to the Wi-Fi</h1>', 'unusable'],
    [200, { error: 'incorrect_client_credentials' }, 'app_fault'],
    [400, { error: 'bad_client_secret' }, 'app_fault'],
    // Text that is a form.
    [400, 'error=invalid_grant', 'refused'],
    [400, 'invalid_grant', 'unavailable'],
    [400, 'error=invalid_client', 'app_fault'],
  ])('%s %j: %s', async (code, body, kind) => {
    expect((await refreshUnder(responding(code, body))).kind).toBe(kind);
    expect(protocol.provider.hitsOf('refresh')).toHaveLength(1);
  });

  const form = 'error=invalid_grant&error_description=The%20token%20has%20expired';
  const json = '{"error":"invalid_grant","error_description":"The token has expired"}';
  test.each<[string, string, RefreshOutcome['kind']]>([
    ['application/x-www-form-urlencoded', form, 'refused'],
    ['application/x-www-form-urlencoded;charset=UTF-8', form, 'refused'],
    ['Application/X-WWW-Form-Urlencoded ; charset="iso-8859-1"', form, 'refused'],
    ['text/plain; charset=us-ascii', `${form}\r\n`, 'refused'],
    ['application/json; charset=ISO-8859-1', json, 'refused'],
    ['application/json;charset=utf8', `\ufeff${json}`, 'refused'],
    ['text/plain;charset=UTF-8', json, 'refused'],
    ['text/html', json, 'refused'],
    ['application/problem+json', json, 'refused'],
    ['text/html', form, 'unavailable'],
    ['application/x-www-form-urlencoded', 'error=server_error', 'unclear_refusal'],
    ['application/x-www-form-urlencoded', 'error=invalid_client', 'app_fault'],
    ['application/x-www-form-urlencoded', 'reason=invalid_grant', 'unavailable'],
    ['application/x-www-form-urlencoded', '<p>error=invalid_grant</p>', 'unavailable'],
  ])('a refusal counts the same as JSON and as a form: %s, %j: %s', async (type, body, kind) => {
    const refusal = await refreshUnder({ responses: { refresh: status(400, body, { 'content-type': type }) } });
    expect(refusal.kind).toBe(kind);
    // With another status, neither ends a grant.
    const success = await refreshUnder({ responses: { refresh: status(200, body, { 'content-type': type }) } });
    expect(success.kind).not.toBe('refused');
  });

  test('does not repeat text in place of an error code', async () => {
    const outcome = await refreshUnder(responding(400, { error: 'denied: ask "Bob" for it' }));
    expect(outcome).toEqual({ kind: 'unclear_refusal', reason: 'status_400' });
  });

  test.each<[ModeName, string]>([
    ['refresh-reset', 'connection'],
    ['refresh-reset-after-headers', 'connection'],
    ['refresh-huge', 'too_large'],
    ['refresh-gzip-cut-off', 'encoding'],
    ['refresh-unknown-encoding', 'encoding'],
  ])('%s: unavailable, %s', async (mode, reason) => {
    expect(await refreshUnder(mode)).toMatchObject({ kind: 'unavailable', reason });
  });

  test('passes on Retry-After', async () => {
    expect(await refreshUnder('refresh-status-503')).toMatchObject({ kind: 'unavailable', retryAfterSeconds: 9 });
    expect(await refreshUnder('refresh-status-429')).toMatchObject({ kind: 'unavailable', retryAfterSeconds: 7 });
  });

  test('wrong metadata is a fault of the app, not of the user', async () => {
    const { refreshToken = '' } = await protocol.logIn();
    protocol.client = protocol.freshClient();
    protocol.provider.setModes('discovery-wrong-issuer');
    expect(await protocol.client.refresh(protocol.app, { refreshToken })).toEqual({
      kind: 'app_fault',
      reason: 'issuer_mismatch',
    });
    expect(protocol.provider.hitsOf('refresh')).toEqual([]);
  });

  test('R26 accepts a response with only an access token', async () => {
    const outcome = await refreshUnder('refresh-lacks-everything');
    expect(outcome).toMatchObject({
      kind: 'tokens',
      response: { refreshToken: undefined, scopes: undefined, expiresInSeconds: undefined, idToken: undefined },
    });
  });

  test.each<[string, ModeName | Mode]>([
    ['access token is a number', 'refresh-rotates-but-breaks'],
    ['bad ID token', 'refresh-bad-id-token'],
    ['ID token of a stranger', 'id-token-stranger-key'],
    ['token type is a number', { refreshResponse: (body) => ({ ...body, token_type: 7 }) }],
    ['scope is a number', { refreshResponse: (body) => ({ ...body, scope: 7 }) }],
    ['unexpected token type', { refreshResponse: (body) => ({ ...body, token_type: 'mac' }) }],
    ['bound to a key although no proof was sent', { refreshResponse: (body) => ({ ...body, token_type: 'DPoP' }) }],
  ])('R32 %s: the new refresh token is saved anyway', async (_what, mode) => {
    const outcome = await refreshUnder(mode);
    expect(outcome).toMatchObject({ kind: 'unusable', refreshToken: expect.stringMatching(/^[0-9a-f-]{36}$/) });
    protocol.provider.setModes();
    const savedToken = outcome.kind === 'unusable' ? outcome.refreshToken : undefined;
    expect((await protocol.client.refresh(protocol.app, { refreshToken: savedToken ?? '' })).kind).toBe('tokens');
  });

  test('R32 saves the refresh token of an error response with a success status', async () => {
    const outcome = await refreshUnder(responding(200, { error: 'odd', refresh_token: 'rt-new' }));
    expect(outcome).toMatchObject({ kind: 'unusable', refreshToken: 'rt-new' });
  });

  test('R32, F13 saves the refresh token of a response that cannot be verified without keys, and says so', async () => {
    const { refreshToken = '' } = await protocol.logIn();
    protocol.client = protocol.freshClient();
    protocol.provider.setModes('jwks-status-500');
    const outcome = await protocol.client.refresh(protocol.app, { refreshToken });
    expect(outcome).toMatchObject({
      reason: 'keys_unavailable',
      refreshToken: expect.stringMatching(/^[0-9a-f-]{36}$/),
    });
    expect(outcome.kind).toBe('unusable');
  });

  test('R32 expires_in of -5 does not invalidate the response', async () => {
    expect(await refreshUnder('expires-in-negative')).toMatchObject({
      kind: 'tokens',
      response: { expiresInSeconds: undefined, refreshToken: expect.any(String) },
    });
  });

  test('accepts an API base URL on an allowed host, and names the member and host of a refused one', async () => {
    const app = protocol.appOf({ apiBaseUrlFrom: { member: 'instance_url', hosts: ['.my.example.com'] } });
    const refreshWithUrl = async (instance_url: unknown) => {
      protocol.provider.setModes();
      const { refreshToken = '' } = await protocol.logIn();
      protocol.provider.setModes({ refreshResponse: (body) => ({ ...body, instance_url }) });
      return protocol.client.refresh(app, { refreshToken });
    };
    expect(await refreshWithUrl('https://other.example.com')).toMatchObject({
      kind: 'unusable',
      reason: 'api_base_url_refused instance_url other.example.com',
    });
    expect(await refreshWithUrl('no address')).toMatchObject({
      kind: 'unusable',
      reason: 'api_base_url_refused instance_url',
    });
    expect(await refreshWithUrl('https://eu.my.example.com/')).toMatchObject({
      kind: 'tokens',
      response: { apiBaseUrl: 'https://eu.my.example.com' },
    });
  });

  test('R25 does not send the refresh token to a redirect target', async () => {
    for (const mode of ['refresh-redirect', 'refresh-redirect-307'] as const) await refreshUnder(mode);
    expect(protocol.provider.trapped).toEqual([]);
  });
});

describe('R131 a removed token endpoint', () => {
  test.each([301, 404, 405, 410])(
    'with status %i causes discovery to be read again before the next call',
    async (code) => {
      const { refreshToken = '' } = await protocol.logIn();
      const countReads = () => protocol.provider.hitsOf('discovery').length;
      const readsBefore = countReads();
      protocol.provider.setModes({ responses: { refresh: status(code, '') } });

      await protocol.client.refresh(protocol.app, { refreshToken });
      expect(countReads()).toBe(readsBefore);

      await protocol.client.refresh(protocol.app, { refreshToken });
      await protocol.client.refresh(protocol.app, { refreshToken });
      expect(countReads()).toBe(readsBefore + 1);
    },
  );
});

test('R130 a refresh whose discovery fails counts as not sent', async () => {
  const { refreshToken = '' } = await protocol.logIn();
  protocol.provider.setModes('discovery-status-503');
  // The metadata of an app object that was not used yet is not cached.
  const appWithoutMetadata = protocol.appOf();
  const outcome = await protocol.client.refresh(appWithoutMetadata, { refreshToken });
  expect(outcome).toMatchObject({ kind: 'unavailable', unsent: true });
});
