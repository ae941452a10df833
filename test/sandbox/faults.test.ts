/** The effect of each fault, and the recorded requests. */
import { Buffer } from 'node:buffer';
import * as oidc from 'openid-client';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createFaults } from '../../src/sandbox/faults.ts';
import { createBrowser, type ForeignClient, PASSWORD, startForeignClient } from './foreign-client.ts';

let client: ForeignClient;

beforeAll(async () => {
  client = await startForeignClient();
  return () => client.sandbox.close();
});
afterEach(() => {
  client.sandbox.faults.clear();
  client.sandbox.requests.reset();
});

const callPlatform = () => fetch(`${client.sandbox.platformUrl}/1/threads/current`);

describe('faults that replace the response', () => {
  it('send a 500 with HTML', async () => {
    client.sandbox.faults.set({ listener: 'platform', kind: 'error' });
    const response = await callPlatform();
    expect([response.status, response.headers.get('content-type')]).toEqual([500, 'text/html']);
  });

  it('send a 503 with Retry-After', async () => {
    client.sandbox.faults.set({ listener: 'bin-lookup-service', kind: 'unavailable', retryAfterSeconds: 7 });
    const response = await fetch(`${client.sandbox.binServiceUrl}/45717360`);
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '7']);
    expect(await response.json()).toEqual({ error: 'temporarily_unavailable' });
  });

  it('send random bytes with a JSON content type', async () => {
    client.sandbox.faults.set({ listener: 'platform', kind: 'garbage' });
    await expect((await callPlatform()).json()).rejects.toThrow();
  });

  it('send an endless body byte by byte', async () => {
    client.sandbox.faults.set({ listener: 'platform', kind: 'drip', intervalMs: 10 });
    const abort = new AbortController();
    const response = await fetch(client.sandbox.platformUrl, { signal: abort.signal });
    const sizes: number[] = [];
    for await (const chunk of response.body ?? []) {
      sizes.push((chunk as Uint8Array).length);
      if (sizes.length === 5) break;
    }
    abort.abort();
    expect(Math.max(...sizes)).toBeLessThan(5);
  });

  it('send a huge body', async () => {
    client.sandbox.faults.set({ listener: 'platform', kind: 'huge' });
    const response = await callPlatform();
    let bytes = 0;
    for await (const chunk of response.body ?? []) bytes += (chunk as Uint8Array).length;
    expect(bytes).toBe(200 * 1024 * 1024);
  });

  it('cut the connection before or during the response', async () => {
    client.sandbox.faults.set({ listener: 'platform', kind: 'reset', times: 1 });
    await expect(callPlatform()).rejects.toThrow('fetch failed');

    client.sandbox.faults.set({ listener: 'platform', kind: 'reset', when: 'after_headers', times: 1 });
    const response = await callPlatform();
    expect(response.status).toBe(200);
    await expect(response.text()).rejects.toThrow('terminated');
  });

  it('send a body that is shorter than its Content-Length', async () => {
    client.sandbox.faults.set({ listener: 'platform', kind: 'truncated' });
    const response = await callPlatform();
    expect(response.headers.get('content-length')).toBe('4096');
    await expect(response.text()).rejects.toThrow('terminated');
  });

  it('send a given response of the token endpoint once', async () => {
    const { refresh_token = '' } = await client.signIn();
    const scripted = { listener: 'identity-provider', path: '/token', kind: 'response', times: 1 } as const;
    client.sandbox.faults.set({ ...scripted, status: 400, body: { error: 'invalid_grant' } });
    await expect(oidc.refreshTokenGrant(client.config, refresh_token)).rejects.toMatchObject({
      error: 'invalid_grant',
    });

    client.sandbox.faults.set({ ...scripted, status: 400, body: '' });
    await expect(oidc.refreshTokenGrant(client.config, refresh_token)).rejects.toThrow();
    expect((await oidc.refreshTokenGrant(client.config, refresh_token)).access_token).toBeTruthy();
  });
});

describe('faults that change a response', () => {
  it('delay it, or hold it until a promise settles', async () => {
    client.sandbox.faults.set({ listener: 'platform', kind: 'slow', ms: 150, times: 1 });
    const startedAt = performance.now();
    expect((await callPlatform()).status).toBe(401);
    expect(performance.now() - startedAt).toBeGreaterThan(140);

    const release = Promise.withResolvers<void>();
    client.sandbox.faults.set({ listener: 'platform', kind: 'hold', until: release.promise });
    let hasResponse = false;
    const pending = callPlatform().then((response) => {
      hasResponse = true;
      return response.status;
    });
    await expect.poll(() => client.sandbox.requests.count('GET /1/threads/current')).toBe(2);
    expect(hasResponse).toBe(false);

    release.resolve();
    expect(await pending).toBe(401);
  });

  it('remove members from a real token response', async () => {
    const { refresh_token = '' } = await client.signIn();
    client.sandbox.faults.set({
      listener: 'identity-provider',
      path: '/token',
      kind: 'rewrite',
      change: ({ refresh_token: _r, expires_in: _e, scope: _s, ...rest }) => rest,
    });
    const tokens = await oidc.refreshTokenGrant(client.config, refresh_token);
    expect([tokens.refresh_token, tokens.expires_in, tokens.scope]).toEqual([undefined, undefined, undefined]);
    expect((await client.thread(tokens.access_token)).status).toBe(200);
  });

  it('lose the response to a refresh that took effect', async () => {
    const { refresh_token = '' } = await client.signIn();
    client.sandbox.faults.set({
      listener: 'identity-provider',
      path: '/token',
      kind: 'reset',
      when: 'after_handling',
      times: 1,
    });
    await expect(oidc.refreshTokenGrant(client.config, refresh_token)).rejects.toThrow();

    const refused = { error: 'invalid_grant' };
    await expect(oidc.refreshTokenGrant(client.config, refresh_token)).rejects.toMatchObject(refused);
  });

  it('name another issuer in discovery', async () => {
    const path = '/.well-known/openid-configuration';
    client.sandbox.faults.set({ listener: 'identity-provider', path, kind: 'wrong_issuer' });
    await expect(client.discover()).rejects.toThrow();
  });

  it('name another issuer in the callback', async () => {
    client.sandbox.faults.set({ listener: 'identity-provider', path: '/authorize', kind: 'wrong_issuer' });
    const browser = createBrowser();
    const { url, finish } = await client.begin();
    const consent = await browser.submit(await browser.get(url), { login: 'user@example.test', password: PASSWORD });
    const callbackPage = await browser.submit(consent, {}, { button: 'Allow' });
    expect(new URL(callbackPage.url).searchParams.get('iss')).toBe('https://other-issuer.example');
    await expect(finish(callbackPage)).rejects.toMatchObject({ cause: { message: expect.stringContaining('"iss"') } });
  });

  it('name another issuer in a validly signed ID token', async () => {
    client.sandbox.faults.set({
      listener: 'identity-provider',
      path: '/token',
      kind: 'wrong_issuer',
      issuer: 'https://x.example',
    });
    await expect(client.signIn()).rejects.toMatchObject({ cause: { cause: { claim: 'iss' } } });
  });

  it('sign an ID token with an unknown key', async () => {
    client.sandbox.faults.set({ listener: 'identity-provider', path: '/token', kind: 'wrong_signature' });
    const failure = await client.signIn().catch((error: unknown) => error as { cause?: Error });
    expect(String('cause' in failure ? failure.cause : '')).toContain('signature');
  });
});

describe('the scope of a fault', () => {
  it('is its path, method and number of times, with the latest fault first', () => {
    const faults = createFaults();
    faults.set({ listener: 'platform', path: '/1/threads', method: 'GET', times: 2, kind: 'error' });
    expect(faults.take('platform', 'GET', '/1/threadsome')).toBeUndefined();
    expect(faults.take('platform', 'POST', '/1/threads')).toBeUndefined();
    expect(faults.take('bin-lookup-service', 'GET', '/1/threads')).toBeUndefined();
    expect(faults.take('platform', 'GET', '/1/threads/current')?.kind).toBe('error');

    const clearFault = faults.set({ listener: 'platform', kind: 'garbage' });
    expect(faults.take('platform', 'GET', '/1/threads')?.kind).toBe('garbage');

    clearFault();
    expect(faults.take('platform', 'GET', '/1/threads')?.kind).toBe('error');
    expect(faults.take('platform', 'GET', '/1/threads')).toBeUndefined();
  });

  it('cannot be switched over HTTP', async () => {
    for (const origin of [client.sandbox.issuer, client.sandbox.platformUrl]) {
      expect((await fetch(`${origin}/faults`, { method: 'POST' })).status).toBe(404);
    }
  });
});

describe('recorded requests', () => {
  it('count requests by method and path, and record their headers', async () => {
    const headers = { 'X-Probe': 'Seen', cookie: 'a=1', authorization: `Basic ${Buffer.from('x').toString('base64')}` };
    await fetch(`${client.sandbox.platformUrl}/1/threads/current?q=1`, { headers });
    await callPlatform();
    const { requests } = client.sandbox;
    expect(requests.count('GET /1/threads/current')).toBe(2);
    expect(requests.count('GET /1/threads/current', 'bin-lookup-service')).toBe(0);
    expect(requests.counts()).toEqual({ 'GET /1/threads/current': 2 });

    const [first] = requests.latest('platform');
    expect(first).toMatchObject({ url: '/1/threads/current?q=1', headers: { 'x-probe': 'Seen', cookie: 'a=1' } });

    requests.reset();
    expect(requests.latest()).toEqual([]);
    expect(requests.count('GET /1/threads/current')).toBe(0);
  });
});
