/** Authorization at the platform: scopes, and the refusals of RFC 6750 for invalid tokens. */
import { createHash } from 'node:crypto';
import { request } from 'node:http';
import { calculateJwkThumbprint, exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose';
import * as oidc from 'openid-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createProofCheck } from '../../src/sandbox/dpop-proof.ts';
import { readSeed } from '../../src/sandbox/seed.ts';
import { createBrowser, type ForeignClient, openConsole, startForeignClient } from './foreign-client.ts';

const apiToken = (name: string) => `sbxt_${name.padEnd(40, '0')}`;

const SEED = {
  users: [{ login: 'robot@example.test', name: 'Report robot', kind: 'service' }],
  tokens: [
    { name: 'reader', user: 'robot@example.test', scopes: ['platform_read_only'], token: apiToken('reader') },
    { name: 'full', user: 'robot@example.test', scopes: ['platform_full_access'], token: apiToken('full') },
    {
      name: 'ended',
      user: 'robot@example.test',
      scopes: ['platform_read_only'],
      expiresAt: '2020-01-01T00:00:00Z',
      token: apiToken('ended'),
    },
    { name: 'revoked', user: 'robot@example.test', scopes: ['platform_full_access'], token: apiToken('revoked') },
  ],
  threads: [
    {
      id: 'SHARED1',
      author: 'user@example.test',
      title: 'Shared',
      html: '<p>Hello</p>',
      sharedWith: ['robot@example.test'],
    },
    { id: 'PRIVATE1', author: 'user@example.test', title: 'Private', html: '<p>Hush</p>' },
  ],
};

let client: ForeignClient;
let accessTokens: Record<'read' | 'full' | 'none', string>;
let foreignToken: string;

beforeAll(async () => {
  const { seed } = readSeed(JSON.stringify(SEED));
  if (seed === undefined) throw new Error('the seed of this test is wrong');
  client = await startForeignClient({ seed });
  const browser = createBrowser();
  const get = async (scope: string) => (await client.signIn({ browser, scope })).access_token;
  accessTokens = {
    read: await get('openid platform_read_only'),
    full: await get('openid platform_full_access'),
    none: '',
  };
  accessTokens.none = (await client.signIn({ scope: 'openid profile' })).access_token;
  const other = await startForeignClient();
  foreignToken = (await other.signIn()).access_token;
  await other.sandbox.close();
  const admin = await openConsole(client);
  const list = await admin.open('/tokens');
  const path = /href="\/console(\/tokens\/[^"]+)">revoked</.exec(list.body)?.[1] ?? '';
  await admin.browser.submit(await admin.open(path), {}, { button: 'Revoke' });
});
afterAll(() => client.sandbox.close());

const call = (path: string, bearer?: string, init: RequestInit = {}) =>
  fetch(`${client.sandbox.platformUrl}${path}`, {
    ...init,
    headers: { ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }), ...init.headers },
  });

const newDocument = (bearer: string, body: unknown = { title: 'Made', content: '<p>Text</p>' }) =>
  call('/1/threads/new-document', bearer, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });

describe('scopes', () => {
  const READ = ['/1/threads/current', '/1/threads/recent', '/1/users/current'];

  it.each(READ)('GET %s accepts either scope and either kind of token, and refuses others', async (path) => {
    for (const good of [accessTokens.read, accessTokens.full, apiToken('reader'), apiToken('full')]) {
      expect((await call(path, good)).status).toBe(200);
    }
    const refused = await call(path, accessTokens.none);
    expect([refused.status, refused.headers.get('www-authenticate')]).toEqual([
      403,
      'Bearer error="insufficient_scope", scope="platform_read_only"',
    ]);
    expect(await refused.json()).toMatchObject({ error: 'insufficient_scope', error_description: expect.any(String) });
  });

  it('creating a document requires full access', async () => {
    for (const reader of [accessTokens.read, apiToken('reader')]) {
      const refused = await newDocument(reader);
      expect([refused.status, refused.headers.get('www-authenticate')]).toEqual([
        403,
        'Bearer error="insufficient_scope", scope="platform_full_access"',
      ]);
    }
    for (const writer of [accessTokens.full, apiToken('full')]) {
      const created = (await (await newDocument(writer)).json()) as { thread: { id: string; title: string } };
      expect(created.thread.title).toBe('Made');
      expect((await call(`/1/threads/${created.thread.id}`, writer)).status).toBe(200);
    }
    expect((await newDocument(apiToken('full'), { title: '' })).status).toBe(400);
    expect((await call('/1/threads/new-document', apiToken('full'))).headers.get('allow')).toBe('POST');
  });
});

describe('invalid tokens', () => {
  it('all get the same 401 invalid_token', async () => {
    const { refresh_token = '', id_token = '' } = await client.signIn();
    const invalidTokens = {
      unknown: 'unknown',
      malformed: 'two%20words',
      empty: '',
      foreign: foreignToken,
      'of the wrong kind (refresh)': refresh_token,
      'of the wrong kind (ID token)': id_token,
      'API token, revoked': apiToken('revoked'),
      'API token, expired': apiToken('ended'),
      'API token, unknown': apiToken('stranger'),
      'API token, cut': apiToken('reader').slice(0, -1),
    };
    for (const [kind, value] of Object.entries(invalidTokens)) {
      const response = await call('/1/threads/current', value);
      expect([kind, response.status, response.headers.get('www-authenticate')]).toEqual([
        kind,
        401,
        'Bearer error="invalid_token"',
      ]);
      expect(await response.json()).toEqual({
        error: 'invalid_token',
        error_code: 401,
        error_description: 'The access token is unknown, expired or revoked.',
      });
    }
  });

  it('include a revoked access token, and a bearer token in the DPoP scheme', async () => {
    const { access_token } = await client.signIn();
    await oidc.tokenRevocation(client.config, access_token);
    const revoked = await call('/1/threads/current', access_token);
    expect([revoked.status, revoked.headers.get('www-authenticate')]).toEqual([401, 'Bearer error="invalid_token"']);

    const asDpop = await call('/1/threads/current', undefined, {
      headers: { authorization: `DPoP ${accessTokens.read}` },
    });
    expect([asDpop.status, asDpop.headers.get('www-authenticate')]).toEqual([
      401,
      expect.stringMatching(/^DPoP algs="ES256 .*error="invalid_token"$/),
    ]);
  });
});

describe('a request', () => {
  it('without a token gets a bare challenge', async () => {
    const response = await call('/1/users/current');
    expect([response.status, response.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
  });

  it('is authorized before its body is read', async () => {
    for (const [bearer, status] of [
      [undefined, 401],
      [apiToken('revoked'), 401],
      [apiToken('reader'), 403],
      [apiToken('full'), 400],
    ] as const) {
      const headers = { 'content-type': 'application/json' };
      const response = await call('/1/threads/new-document', bearer, { method: 'POST', headers, body: '{' });
      expect([bearer, response.status]).toEqual([bearer, status]);
      if (status === 400) expect(await response.json()).toMatchObject({ error_description: 'The body is not JSON.' });
    }
    const body = JSON.stringify({ title: 'Long', content: 'x'.repeat(300_000) });
    const headers = { 'content-type': 'application/json' };
    const large = await call('/1/threads/new-document', apiToken('full'), { method: 'POST', headers, body });
    expect([large.status, await large.json()]).toMatchObject([
      413,
      { error_description: expect.stringMatching('200 kB') },
    ]);

    const path = await call('/1/threads/%E0%A4', apiToken('full'));
    expect([path.status, await path.json()]).toMatchObject([
      400,
      { error_description: expect.stringMatching('address') },
    ]);
  });

  it('with a second token in a form is invalid_request, and a form is not accepted as a document', async () => {
    const post = (bearer: string, fields: Record<string, string>) =>
      call('/1/threads/new-document', bearer, { method: 'POST', body: new URLSearchParams(fields) });
    for (const bearer of [apiToken('full'), apiToken('reader'), apiToken('revoked')]) {
      const twice = await post(bearer, { access_token: apiToken('full'), title: 'Made', content: 'Text' });
      expect([twice.status, twice.headers.get('www-authenticate')]).toEqual([400, 'Bearer error="invalid_request"']);
      expect(await twice.json()).toMatchObject({ error: 'invalid_request' });
    }
    const form = await post(apiToken('full'), { title: 'Made', content: 'Text' });
    expect([form.status, form.headers.get('www-authenticate')]).toEqual([400, null]);
    expect((await post(apiToken('revoked'), { title: 'Made' })).status).toBe(401);
    expect((await post(apiToken('full'), { title: 'x'.repeat(20_000) })).status).toBe(413);
  });

  it('with a token in two places is invalid_request', async () => {
    const responseWithTokenInUrl = await call(
      `/1/threads/current?access_token=${accessTokens.read}`,
      accessTokens.read,
    );
    expect([responseWithTokenInUrl.status, responseWithTokenInUrl.headers.get('www-authenticate')]).toEqual([
      400,
      'Bearer error="invalid_request"',
    ]);
    const twice = await new Promise<number | undefined>((resolve, reject) => {
      const authorization = [`Bearer ${accessTokens.read}`, `Bearer ${accessTokens.full}`];
      request(
        `${client.sandbox.platformUrl}/1/threads/current`,
        { headers: { authorization } as never },
        (response) => {
          response.resume();
          resolve(response.statusCode);
        },
      )
        .on('error', reject)
        .end();
    });
    expect(twice).toBe(400);
  });
});

describe('documents', () => {
  it('are visible only to users who share them; others get the 404 of an unknown id', async () => {
    const robot = apiToken('reader');
    expect((await call('/1/threads/SHARED1', robot)).status).toBe(200);

    const recent = (await (await call('/1/threads/recent', robot)).json()) as Record<
      string,
      { thread: { id: string } }
    >;
    expect(Object.keys(recent)).toContain('SHARED1');
    expect(recent.PRIVATE1).toBeUndefined();

    const [hidden, unknown] = [await call('/1/threads/PRIVATE1', robot), await call('/1/threads/NOBODYS', robot)];
    expect([hidden.status, await hidden.text()]).toEqual([unknown.status, await unknown.text()]);
    expect(hidden.status).toBe(404);
    expect((await call('/1/threads/PRIVATE1', accessTokens.read)).status).toBe(200);
    expect(
      Object.keys((await (await call('/1/threads/recent?count=1', accessTokens.read)).json()) as object),
    ).toHaveLength(1);

    for (const count of ['0', '51', 'x', '1.5'])
      expect((await call(`/1/threads/recent?count=${count}`, robot)).status).toBe(400);
  });

  it('can be read by the id of the current thread', async () => {
    const current = (await (await call('/1/threads/current', accessTokens.read)).json()) as { thread: { id: string } };
    const byId = await call(`/1/threads/${current.thread.id}`, accessTokens.read);
    expect(await byId.json()).toEqual(current);
  });

  it('users/current returns the user', async () => {
    expect(await (await call('/1/users/current', accessTokens.read)).json()).toMatchObject({
      id: 'sbx-00u1',
      name: 'Uma Okafor',
      emails: ['user@example.test'],
      is_robot: false,
    });
  });
});

describe('a DPoP proof', () => {
  it('is valid once, for its request, token, key and time', async () => {
    const clock = { ms: Date.now() };
    const isValid = createProofCheck({ now: () => clock.ms });
    const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true });
    const jwk = await exportJWK(publicKey);
    const good = {
      htm: 'GET',
      htu: 'https://p.example/1/x',
      ath: createHash('sha256').update('t').digest('base64url'),
    };
    const expectedProof = {
      method: 'GET',
      url: good.htu,
      token: 't',
      keyThumbprint: await calculateJwkThumbprint(jwk),
    };
    let proofCount = 0;
    const proof = (changes: JWTPayload = {}, typ = 'dpop+jwt') =>
      new SignJWT({ ...good, jti: `proof-${proofCount++}`, iat: Math.floor(clock.ms / 1000), ...changes })
        .setProtectedHeader({ alg: 'ES256', typ, jwk })
        .sign(privateKey);
    const first = await proof();
    expect(await isValid({ ...expectedProof, proof: first })).toBe(true);
    expect(await isValid({ ...expectedProof, proof: first })).toBe(false);
    expect(await isValid({ ...expectedProof, proof: await proof({ htu: `${good.htu}?a=1` }) })).toBe(true);

    for (const changes of [{ htm: 'POST' }, { htu: 'https://p.example/1/y' }, { ath: 'x' }, { iat: 1 }, { jti: '' }]) {
      expect([changes, await isValid({ ...expectedProof, proof: await proof(changes) })]).toEqual([changes, false]);
    }
    expect(await isValid({ ...expectedProof, proof: await proof({}, 'jwt') })).toBe(false);
    expect(await isValid({ ...expectedProof, proof: await proof(), keyThumbprint: 'another' })).toBe(false);
    expect(await isValid({ ...expectedProof, proof: 'no.jwt' })).toBe(false);
  });
});
