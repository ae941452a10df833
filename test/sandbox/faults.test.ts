/** Each fault switch does what it says, and hits count. */
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
  client.sandbox.hits.reset();
});

const anyPlatformPath = () => fetch(`${client.sandbox.platformUrl}/1/threads/current`);

describe('faults that replace the answer', () => {
  it('500 with HTML', async () => {
    client.sandbox.faults.set({ on: 'platform', kind: 'error' });
    const answer = await anyPlatformPath();
    expect([answer.status, answer.headers.get('content-type')]).toEqual([500, 'text/html']);
  });

  it('503 with Retry-After', async () => {
    client.sandbox.faults.set({ on: 'bin-service', kind: 'unavailable', retryAfterSeconds: 7 });
    const answer = await fetch(`${client.sandbox.binServiceUrl}/45717360`);
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '7']);
    expect(await answer.json()).toEqual({ error: 'temporarily_unavailable' });
  });

  it('garbage that calls itself JSON', async () => {
    client.sandbox.faults.set({ on: 'platform', kind: 'garbage' });
    await expect((await anyPlatformPath()).json()).rejects.toThrow();
  });

  it('a body that drips', async () => {
    client.sandbox.faults.set({ on: 'platform', kind: 'drip', intervalMs: 10 });
    const abort = new AbortController();
    const answer = await fetch(client.sandbox.platformUrl, { signal: abort.signal });
    const sizes: number[] = [];
    for await (const chunk of answer.body ?? []) {
      sizes.push((chunk as Uint8Array).length);
      if (sizes.length === 5) break;
    }
    abort.abort();
    expect(Math.max(...sizes)).toBeLessThan(5);
  });

  it('a huge body', async () => {
    client.sandbox.faults.set({ on: 'platform', kind: 'huge' });
    const answer = await anyPlatformPath();
    let bytes = 0;
    for await (const chunk of answer.body ?? []) bytes += (chunk as Uint8Array).length;
    expect(bytes).toBe(200 * 1024 * 1024);
  });

  it('a connection cut before and amid the answer', async () => {
    client.sandbox.faults.set({ on: 'platform', kind: 'reset', times: 1 });
    await expect(anyPlatformPath()).rejects.toThrow('fetch failed');
    client.sandbox.faults.set({ on: 'platform', kind: 'reset', when: 'after_headers', times: 1 });
    const answer = await anyPlatformPath();
    expect(answer.status).toBe(200);
    await expect(answer.text()).rejects.toThrow('terminated');
  });

  it('a body shorter than it says', async () => {
    client.sandbox.faults.set({ on: 'platform', kind: 'truncated' });
    const answer = await anyPlatformPath();
    expect(answer.headers.get('content-length')).toBe('4096');
    await expect(answer.text()).rejects.toThrow('terminated');
  });

  it('a scripted answer of the token endpoint, once', async () => {
    const { refresh_token = '' } = await client.signIn();
    const scripted = { on: 'identity-provider', path: '/token', kind: 'answer', times: 1 } as const;
    client.sandbox.faults.set({ ...scripted, status: 400, body: { error: 'invalid_grant' } });
    await expect(oidc.refreshTokenGrant(client.config, refresh_token)).rejects.toMatchObject({
      error: 'invalid_grant',
    });
    client.sandbox.faults.set({ ...scripted, status: 400, body: '' });
    await expect(oidc.refreshTokenGrant(client.config, refresh_token)).rejects.toThrow();
    expect((await oidc.refreshTokenGrant(client.config, refresh_token)).access_token).toBeTruthy();
  });
});

describe('faults that change an answer', () => {
  it('slow, and held until told', async () => {
    client.sandbox.faults.set({ on: 'platform', kind: 'slow', ms: 150, times: 1 });
    const started = performance.now();
    expect((await anyPlatformPath()).status).toBe(401);
    expect(performance.now() - started).toBeGreaterThan(140);
    const gate = Promise.withResolvers<void>();
    client.sandbox.faults.set({ on: 'platform', kind: 'hold', until: gate.promise });
    let answered = false;
    const pending = anyPlatformPath().then((answer) => {
      answered = true;
      return answer.status;
    });
    await expect.poll(() => client.sandbox.hits.count('GET /1/threads/current')).toBe(2);
    expect(answered).toBe(false);
    gate.resolve();
    expect(await pending).toBe(401);
  });

  it('a real token answer with members missing', async () => {
    const { refresh_token = '' } = await client.signIn();
    client.sandbox.faults.set({
      on: 'identity-provider',
      path: '/token',
      kind: 'rewrite',
      change: ({ refresh_token: _r, expires_in: _e, scope: _s, ...rest }) => rest,
    });
    const tokens = await oidc.refreshTokenGrant(client.config, refresh_token);
    expect([tokens.refresh_token, tokens.expires_in, tokens.scope]).toEqual([undefined, undefined, undefined]);
    expect((await client.thread(tokens.access_token)).status).toBe(200);
  });

  it('a refresh that took effect and whose answer was lost', async () => {
    const { refresh_token = '' } = await client.signIn();
    client.sandbox.faults.set({
      on: 'identity-provider',
      path: '/token',
      kind: 'reset',
      when: 'after_handling',
      times: 1,
    });
    await expect(oidc.refreshTokenGrant(client.config, refresh_token)).rejects.toThrow();
    const refused = { error: 'invalid_grant' };
    await expect(oidc.refreshTokenGrant(client.config, refresh_token)).rejects.toMatchObject(refused);
  });

  it('another issuer in discovery', async () => {
    const path = '/.well-known/openid-configuration';
    client.sandbox.faults.set({ on: 'identity-provider', path, kind: 'wrong_issuer' });
    await expect(client.discover()).rejects.toThrow();
  });

  it('another issuer in the callback', async () => {
    client.sandbox.faults.set({ on: 'identity-provider', path: '/authorize', kind: 'wrong_issuer' });
    const browser = createBrowser();
    const { url, finish } = await client.begin();
    const consent = await browser.submit(await browser.get(url), { login: 'user@example.test', password: PASSWORD });
    const back = await browser.submit(consent, {}, { button: 'Allow' });
    expect(new URL(back.url).searchParams.get('iss')).toBe('https://somebody-else.example');
    await expect(finish(back)).rejects.toMatchObject({ cause: { message: expect.stringContaining('"iss"') } });
  });

  it('another issuer in the ID token, properly signed', async () => {
    client.sandbox.faults.set({
      on: 'identity-provider',
      path: '/token',
      kind: 'wrong_issuer',
      issuer: 'https://x.example',
    });
    await expect(client.signIn()).rejects.toMatchObject({ cause: { cause: { claim: 'iss' } } });
  });

  it('an ID token signed by a stranger', async () => {
    client.sandbox.faults.set({ on: 'identity-provider', path: '/token', kind: 'wrong_signature' });
    const failure = await client.signIn().catch((error: unknown) => error as { cause?: Error });
    expect(String('cause' in failure ? failure.cause : '')).toContain('signature');
  });
});

describe('which requests a fault meets', () => {
  it('those below its path and with its method, so many times, the latest switch first', () => {
    const faults = createFaults();
    faults.set({ on: 'platform', path: '/1/threads', method: 'GET', times: 2, kind: 'error' });
    expect(faults.take('platform', 'GET', '/1/threadsome')).toBeUndefined();
    expect(faults.take('platform', 'POST', '/1/threads')).toBeUndefined();
    expect(faults.take('bin-service', 'GET', '/1/threads')).toBeUndefined();
    expect(faults.take('platform', 'GET', '/1/threads/current')?.kind).toBe('error');
    const off = faults.set({ on: 'platform', kind: 'garbage' });
    expect(faults.take('platform', 'GET', '/1/threads')?.kind).toBe('garbage');
    off();
    expect(faults.take('platform', 'GET', '/1/threads')?.kind).toBe('error');
    expect(faults.take('platform', 'GET', '/1/threads')).toBeUndefined();
  });

  it('cannot be switched over HTTP', async () => {
    for (const origin of [client.sandbox.issuer, client.sandbox.platformUrl]) {
      expect((await fetch(`${origin}/faults`, { method: 'POST' })).status).toBe(404);
    }
  });
});

describe('hits', () => {
  it('count by method and path, and keep the headers that came', async () => {
    const headers = { 'X-Probe': 'Seen', cookie: 'a=1', authorization: `Basic ${Buffer.from('x').toString('base64')}` };
    await fetch(`${client.sandbox.platformUrl}/1/threads/current?q=1`, { headers });
    await anyPlatformPath();
    const { hits } = client.sandbox;
    expect(hits.count('GET /1/threads/current')).toBe(2);
    expect(hits.count('GET /1/threads/current', 'bin-service')).toBe(0);
    expect(hits.all()).toEqual({ 'GET /1/threads/current': 2 });
    const [first] = hits.requests('platform');
    expect(first).toMatchObject({ url: '/1/threads/current?q=1', headers: { 'x-probe': 'Seen', cookie: 'a=1' } });
    hits.reset();
    expect(hits.requests()).toEqual([]);
    expect(hits.count('GET /1/threads/current')).toBe(0);
  });
});
