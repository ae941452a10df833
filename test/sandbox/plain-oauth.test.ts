/** Clients with only plain OAuth 2.0, a client ID and a secret: curl and Python libraries. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { promisify } from 'node:util';
import { decodeJwt } from 'jose';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { SandboxClient } from '../../src/sandbox/clients.ts';
import { SCOPES } from '../../src/sandbox/scopes.ts';
import { killOnExit } from '../support/child-processes.ts';
import { missingCurl, skipIfMissing } from '../support/missing.ts';
import {
  CALLBACK_URL,
  CLIENT,
  createBrowser,
  type ForeignClient,
  openConsole,
  PASSWORD,
  startForeignClient,
} from './foreign-client.ts';

const SCOPE = 'offline_access platform_read_only';
const PUBLIC: SandboxClient = { clientId: 'public', redirectUris: [CALLBACK_URL], tokenEndpointAuthMethod: 'none' };
const STRICT: SandboxClient = { ...CLIENT, clientId: 'strict', settings: { requirePkce: true } };
const NARROW = {
  ...CLIENT,
  clientId: 'narrow',
  clientSecret: 'the secret of the narrow client',
  scopes: SCOPE.split(' '),
};

let client: ForeignClient;
// Debian's Python, which finds Debian's packages.
const PYTHON = '/usr/bin/python3';
const run = promisify(execFile);

beforeAll(async () => {
  client = await startForeignClient({ clients: [CLIENT, PUBLIC, STRICT, NARROW] });
});
afterAll(() => client.sandbox.close());

const urlOf = (params: Record<string, string>) =>
  `${client.sandbox.issuer}/authorize?${new URLSearchParams({
    response_type: 'code',
    client_id: CLIENT.clientId,
    redirect_uri: CALLBACK_URL,
    ...params,
  })}`;

/** Signs in and allows the app. Returns the callback URL that the app receives. */
async function allow(url: string): Promise<URL> {
  const browser = createBrowser();
  const consent = await browser.submit(await browser.get(url), { login: 'user@example.test', password: PASSWORD });
  return new URL((await browser.submit(consent, {}, { button: 'Allow' })).url);
}

/** Runs a program that prints an authorization URL, reads the callback URL and prints its result. */
async function runWithSignIn(command: string, args: string[]): Promise<unknown> {
  const child = killOnExit(
    spawn(command, args, {
      env: { ...process.env, OAUTHLIB_INSECURE_TRANSPORT: '1', AUTHLIB_INSECURE_TRANSPORT: '1' },
    }),
  );
  let output = '';
  let errors = '';
  child.stdout.on('data', (chunk) => (output += String(chunk)));
  child.stderr.on('data', (chunk) => (errors += String(chunk)));
  const ended = once(child, 'close').then(() => true);
  const printed = () => once(child.stdout, 'data').then(() => false);
  let hasEnded = false;
  while (!output.includes('\n') && !hasEnded) hasEnded = await Promise.race([printed(), ended]);
  const [url = ''] = output.split('\n');
  if (!url.startsWith('http')) throw new Error(`The program printed no URL: ${output}${errors}`);
  child.stdin.end(`${await allow(url)}\n`);
  await ended;
  const lines = output.trim().split('\n');
  if (lines.length < 2) throw new Error(errors);
  return JSON.parse(lines.at(-1) ?? '');
}

const missingPythonModule = (module: string) =>
  run(PYTHON, ['-c', `import ${module}`]).then(
    () => undefined,
    () => `python3-${module.replaceAll('_', '-')}`,
  );

describe('a confidential client without PKCE', () => {
  it('gets its tokens with curl', async (context) => {
    skipIfMissing(context, missingCurl);
    const back = await allow(urlOf({ scope: SCOPE, state: 'xyz' }));
    expect(back.searchParams.get('state')).toBe('xyz');

    const form = {
      grant_type: 'authorization_code',
      code: back.searchParams.get('code') ?? '',
      redirect_uri: CALLBACK_URL,
      client_id: CLIENT.clientId,
      client_secret: CLIENT.clientSecret,
    };
    const data = Object.entries(form).flatMap(([name, value]) => ['--data-urlencode', `${name}=${value}`]);
    const { stdout } = await run('curl', ['-s', `${client.sandbox.issuer}/token`, ...data]);
    const tokens = JSON.parse(stdout) as Record<string, string>;
    expect(tokens).toMatchObject({ token_type: 'Bearer', refresh_token: expect.any(String), scope: SCOPE });
    expect((await client.thread(tokens.access_token)).status).toBe(200);
  });

  it('works with requests-oauthlib as its documentation shows', async (context) => {
    skipIfMissing(context, await missingPythonModule('requests_oauthlib'));
    const { issuer, platformUrl } = client.sandbox;
    const script = `
import json, sys
from requests_oauthlib import OAuth2Session
client_id, client_secret, redirect_uri, issuer, platform = sys.argv[1:]
oauth = OAuth2Session(client_id, redirect_uri=redirect_uri, scope=['offline_access', 'platform_read_only'])
authorization_url, state = oauth.authorization_url(issuer + '/authorize')
print(authorization_url, flush=True)
token = oauth.fetch_token(issuer + '/token', authorization_response=sys.stdin.readline().strip(), client_secret=client_secret)
first = oauth.get(platform + '/1/threads/current').status_code
oauth.refresh_token(issuer + '/token', client_id=client_id, client_secret=client_secret)
print(json.dumps([first, oauth.get(platform + '/1/threads/current').status_code, token['scope']]))
`;
    const args = ['-c', script, CLIENT.clientId, CLIENT.clientSecret, CALLBACK_URL, issuer, platformUrl];
    expect(await runWithSignIn(PYTHON, args)).toEqual([200, 200, SCOPE.split(' ')]);
  });

  it('works with Authlib as its documentation shows', async (context) => {
    skipIfMissing(context, await missingPythonModule('authlib'));
    const { issuer, platformUrl } = client.sandbox;
    const script = `
import json, sys
from authlib.integrations.requests_client import OAuth2Session
client_id, client_secret, redirect_uri, issuer, platform = sys.argv[1:]
client = OAuth2Session(client_id, client_secret, scope='offline_access platform_read_only', redirect_uri=redirect_uri)
uri, state = client.create_authorization_url(issuer + '/authorize')
print(uri, flush=True)
token = client.fetch_token(issuer + '/token', authorization_response=sys.stdin.readline().strip())
first = client.get(platform + '/1/threads/current').status_code
client.refresh_token(issuer + '/token', refresh_token=token['refresh_token'])
print(json.dumps([first, client.get(platform + '/1/threads/current').status_code, token['scope']]))
`;
    const args = ['-c', script, CLIENT.clientId, CLIENT.clientSecret, CALLBACK_URL, issuer, platformUrl];
    expect(await runWithSignIn(PYTHON, args)).toEqual([200, 200, SCOPE]);
  });
});

describe('PKCE', () => {
  const errorFor = async (client_id: string) =>
    new URL((await createBrowser().get(urlOf({ client_id, scope: SCOPE }))).url).searchParams;

  it.each(['public', 'strict'])('is required of the client %s', async (clientId) => {
    const params = await errorFor(clientId);
    expect([params.get('error'), params.get('error_description')]).toEqual([
      'invalid_request',
      expect.stringContaining('PKCE'),
    ]);
  });

  it('is required of a dynamically registered client only if it is public', async () => {
    const initialAccessToken = 'initial-access-token-of-this-test-1357913579';
    const otherSandbox = await startForeignClient({ initialAccessToken });
    const register = async (method: string) => {
      const response = await fetch(`${otherSandbox.sandbox.issuer}/register`, {
        method: 'POST',
        headers: { authorization: `Bearer ${initialAccessToken}`, 'content-type': 'application/json' },
        body: JSON.stringify({ redirect_uris: [CALLBACK_URL], token_endpoint_auth_method: method }),
      });
      const { client_id = '' } = (await response.json()) as Record<string, string>;
      const params = { response_type: 'code', client_id, redirect_uri: CALLBACK_URL };
      const page = await createBrowser().get(`${otherSandbox.sandbox.issuer}/authorize?${new URLSearchParams(params)}`);
      return new URL(page.url).searchParams.get('error_description');
    };
    expect(await register('none')).toContain('requires PKCE');
    expect(await register('client_secret_basic')).toBeNull();

    await otherSandbox.sandbox.close();
  });

  it('can be required on the app’s page of the console, which shows the state', async () => {
    const admin = await openConsole(client);
    const save = async (id: string, requirePkce: string) =>
      (await admin.browser.submit(await admin.open(`/apps/${id}`), { requirePkce }, { button: 'Save' })).body;
    const REQUIRED = /<dt>PKCE<\/dt><dd>required/;
    expect((await admin.open('/apps/strict')).body).toMatch(REQUIRED);
    expect(await save('strict', '')).not.toMatch(REQUIRED);
    expect((await errorFor('strict')).get('error')).toBeNull();
    expect(await save('strict', 'yes')).toMatch(REQUIRED);
    expect((await errorFor('strict')).get('error')).toBe('invalid_request');
    expect(await save('public', '')).toMatch(REQUIRED);
    expect((await errorFor('public')).get('error')).toBe('invalid_request');
  });
});

describe('the scope of a request', () => {
  const tokensFor = async (params: Record<string, string>, app: SandboxClient & { clientSecret: string } = CLIENT) => {
    const back = await allow(urlOf({ client_id: app.clientId, ...params }));
    const { status, body } = await exchange(back.searchParams.get('code') ?? '', app);
    expect(status).toBe(200);
    return body;
  };
  const exchange = async (code: string, app = CLIENT, extra: Record<string, string> = {}) => {
    const response = await fetch(`${client.sandbox.issuer}/token`, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa(`${app.clientId}:${encodeURIComponent(app.clientSecret)}`)}` },
      body: new URLSearchParams({ grant_type: 'authorization_code', code, redirect_uri: CALLBACK_URL, ...extra }),
    });
    return { status: response.status, body: (await response.json()) as Record<string, string> };
  };

  it.each([{}, { scope: '' }])('defaults to that of the app: %j', async (params) => {
    const tokens = await tokensFor({ client_id: NARROW.clientId, ...params }, NARROW);
    expect([tokens.scope, tokens.refresh_token]).toEqual([SCOPE, expect.any(String)]);
    expect((await client.thread(tokens.access_token)).status).toBe(200);
  });

  it('defaults to that of the app in requests with parameters that need openid', async () => {
    const tokens = await tokensFor({ nonce: 'n-1', max_age: '3600', acr_values: 'pwd' });
    expect(tokens.scope).toMatch(/^openid /);
    expect(decodeJwt(tokens.id_token ?? '')).toMatchObject({ nonce: 'n-1', auth_time: expect.any(Number) });

    const pageWithoutOpenid = await createBrowser().get(urlOf({ client_id: NARROW.clientId, nonce: 'n-1' }));
    expect(new URL(pageWithoutOpenid.url).searchParams.get('error_description')).toContain(
      'openid scope must be requested',
    );
  });

  it.each([
    [NARROW, {}, SCOPE],
    [CLIENT, { nonce: 'n-1' }, SCOPES.join(' ')],
  ])('may be left out of a pushed request of %o', async (app, extraParameters, scope) => {
    const pushed = await fetch(`${client.sandbox.issuer}/par`, {
      method: 'POST',
      headers: { authorization: `Basic ${btoa(`${app.clientId}:${encodeURIComponent(app.clientSecret)}`)}` },
      body: new URLSearchParams({
        response_type: 'code',
        client_id: app.clientId,
        redirect_uri: CALLBACK_URL,
        ...extraParameters,
      }),
    });
    const { request_uri = '' } = (await pushed.json()) as Record<string, string>;
    const back = await allow(
      `${client.sandbox.issuer}/authorize?${new URLSearchParams({ client_id: app.clientId, request_uri })}`,
    );
    expect((await exchange(back.searchParams.get('code') ?? '', app)).body).toMatchObject({
      scope,
      refresh_token: expect.any(String),
    });
  });

  it('lists offline_access on the consent page and grants it, without prompt=consent', async () => {
    const browser = createBrowser();
    const url = urlOf({ scope: `openid ${SCOPE}` });
    const consent = await browser.submit(await browser.get(url), { login: 'user@example.test', password: PASSWORD });
    expect(consent.body).toContain('Keep this access while you are away');

    await browser.submit(consent, {}, { button: 'Allow' });
    const again = await browser.get(url);
    expect(again.url.startsWith(CALLBACK_URL)).toBe(true);

    const { body } = await exchange(new URL(again.url).searchParams.get('code') ?? '');
    expect(body).toMatchObject({ scope: `openid ${SCOPE}`, refresh_token: expect.any(String) });
  });

  it('excludes offline_access for an app without the grant type or the scope, as the console says', async () => {
    const initialAccessToken = 'initial-access-token-of-this-test-9876543210';
    const other = await startForeignClient({
      initialAccessToken,
      clients: [CLIENT, { ...NARROW, scopes: ['platform_read_only'] }],
    });
    const response = await fetch(`${other.sandbox.issuer}/register`, {
      method: 'POST',
      headers: { authorization: `Bearer ${initialAccessToken}`, 'content-type': 'application/json' },
      body: JSON.stringify({ redirect_uris: [CALLBACK_URL], grant_types: ['authorization_code'] }),
    });
    const { client_id = '' } = (await response.json()) as Record<string, string>;
    const params = { response_type: 'code', client_id, redirect_uri: CALLBACK_URL, scope: SCOPE };
    const browser = createBrowser();
    const login = await browser.get(`${other.sandbox.issuer}/authorize?${new URLSearchParams(params)}`);
    const consent = await browser.submit(login, { login: 'user@example.test', password: PASSWORD });
    expect(consent.body).not.toContain('while you are away');

    const { open } = await openConsole(other);
    expect((await open(`/apps/${client_id}`)).body).toContain('without the grant type refresh_token');
    expect((await open(`/apps/${NARROW.clientId}`)).body).toContain('offline_access is not allowed');
    expect((await open(`/apps/${CLIENT.clientId}`)).body).toContain('requests offline_access and the user allows it');

    const url = `${other.sandbox.issuer}/authorize?${new URLSearchParams({ ...params, client_id: NARROW.clientId })}`;
    expect(new URL((await createBrowser().get(url)).url).searchParams.get('error')).toBe('invalid_scope');

    await other.sandbox.close();
  });
});

describe('an error', () => {
  const paramsOf = (url: string) => Object.fromEntries(new URL(url).searchParams);

  it('says that no requested scope exists, not that access was denied', async () => {
    const page = await createBrowser().get(urlOf({ scope: 'read write' }));
    expect(paramsOf(page.url)).toMatchObject({
      error: 'invalid_scope',
      error_description: 'none of the requested scopes can be granted',
    });
  });

  it('says whether the user denied access or cancelled the sign-in', async () => {
    const browser = createBrowser();
    const login = await browser.get(urlOf({ scope: SCOPE }));
    const cancelled = await browser.submit(login, {}, { button: 'Cancel' });
    expect(paramsOf(cancelled.url)).toMatchObject({
      error: 'access_denied',
      error_description: 'The user cancelled the sign-in.',
    });

    const again = await browser.get(urlOf({ scope: SCOPE }));
    const consent = await browser.submit(again, { login: 'user@example.test', password: PASSWORD });
    expect(paramsOf((await browser.submit(consent, {}, { button: 'Deny' })).url)).toMatchObject({
      error: 'access_denied',
      error_description: 'The user denied access.',
    });
  });

  it.each([
    ['a wrong secret', { secret: 'wrong' }, 'invalid secret provided'],
    ['an unknown code', { code: 'unknown' }, 'authorization code not found'],
    ['another callback URL', { redirect_uri: `${CALLBACK_URL}/` }, 'authorization code redirect_uri mismatch'],
    ['a verifier without a challenge', { code_verifier: 'x'.repeat(43) }, 'unsupported code_challenge_method'],
  ])('of the token endpoint names %s', async (_case, { secret, ...changedFields }: Record<string, string>, reason) => {
    const back = await allow(urlOf({ scope: SCOPE }));
    const response = await fetch(`${client.sandbox.issuer}/token`, {
      method: 'POST',
      body: new URLSearchParams({
        grant_type: 'authorization_code',
        code: back.searchParams.get('code') ?? '',
        redirect_uri: CALLBACK_URL,
        client_id: CLIENT.clientId,
        client_secret: secret ?? CLIENT.clientSecret,
        ...changedFields,
      }),
    });
    expect((await response.json()) as object).toMatchObject({ error_description: expect.stringContaining(reason) });
  });

  it.each(['par', 'revoke', 'introspect', 'token'])('of /%s names its cause, as JSON and as a page', async (path) => {
    const body = new URLSearchParams({ client_id: CLIENT.clientId, client_secret: 'wrong' });
    const refusalFor = (accept: string) =>
      fetch(`${client.sandbox.issuer}/${path}`, { method: 'POST', headers: { accept }, body });
    const json = await refusalFor('*/*');
    expect([json.status, await json.json()]).toEqual([
      401,
      { error: 'invalid_client', error_description: 'client authentication failed: invalid secret provided' },
    ]);

    const page = await refusalFor('text/html');
    expect([page.status, page.headers.get('content-type')]).toEqual([401, 'text/html; charset=utf-8']);
    expect(await page.text()).toContain('<dd>client authentication failed: invalid secret provided</dd>');
  });

  it('of userinfo names its cause', async () => {
    const response = await fetch(`${client.sandbox.issuer}/userinfo`, { headers: { authorization: 'Bearer unknown' } });
    expect([response.status, await response.json()]).toEqual([
      401,
      { error: 'invalid_token', error_description: 'invalid token provided: access token not found' },
    ]);
  });
});
