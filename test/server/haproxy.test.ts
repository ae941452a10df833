/** Follows docs/haproxy.md as far as a test can: its HAProxy in front of Gatehouse, with TLS. */

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { sharedAssets } from '../../src/shared/pages/assets.ts';
import { type DocumentedHaproxy, startDocumentedHaproxy } from '../support/documented-haproxy.ts';
import { startSite, type TestSite } from '../support/gatehouse.ts';
import { missingHaproxy } from '../support/haproxy.ts';
import { skipIfMissing } from '../support/missing.ts';
import { freePort } from '../support/ports.ts';
import { selfSigned } from '../support/self-signed.ts';
import { sendRequest } from '../support/send-request.ts';
import { type Http2Response, sendRequestOverHttp2 } from '../support/send-request-http2.ts';
import { until } from '../support/until.ts';
import { CARD_NUMBERS, REQUESTS, SECRETS } from './logged-requests.ts';
import { emptyFolder, runSteps, stepsOf } from './shown-steps.ts';

const HOST = 'gatehouse.example.com';
const { key, cert } = selfSigned(HOST);
const [steps = ''] = stepsOf(readFileSync(join(import.meta.dirname, '..', '..', 'docs', 'haproxy.md'), 'utf8'));

/** Follows the steps with a folder as root of the machine. */
function follow(haproxy = '') {
  const folder = emptyFolder();
  mkdirSync(join(folder, 'etc/haproxy'), { recursive: true });
  writeFileSync(join(folder, 'given.pem'), cert);
  writeFileSync(join(folder, 'given.key'), key);
  const moved = steps
    .replaceAll('/etc/', `${folder}/etc/`)
    .replace(/^(CERTIFICATE=).*$/m, `$1${folder}/given.pem`)
    .replace(/^(KEY=).*$/m, `$1${folder}/given.key`);
  const result = runSteps(moved, { folder, standIns: { 'apt-get': '', haproxy, systemctl: '' } });
  return { ...result, folder, settings: readFileSync(join(folder, 'etc/haproxy/haproxy.cfg'), 'utf8') };
}

/** Adapts the settings to run without privileges, with the log on standard output. */
function onThisMachine(settings: string, { port, plainPort }: { port: number; plainPort: number }): string {
  return settings
    .replace('log /dev/log local0', 'log stdout format raw local0')
    .replaceAll(/^ {2}(?:user|group|chroot) .*\n/gm, '')
    .replace('bind :80,[::]:80 ', `bind 127.0.0.1:${plainPort},[::1]:${plainPort} `)
    .replace('bind :443,[::]:443 ', `bind 127.0.0.1:${port},[::1]:${port} `);
}

test('R73 HAProxy sends Gatehouse the address of the client, and ignores what the client sends', async (context) => {
  skipIfMissing(context, missingHaproxy);
  const receivedHeaders: IncomingHttpHeaders[] = [];
  const upstream = createServer((req, res) => {
    receivedHeaders.push(req.headers);
    res.end();
  });
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void upstream.close());
  const { port: upstreamPort } = upstream.address() as AddressInfo;
  const [port, plainPort] = [await freePort(), await freePort()];
  const settings = onThisMachine(follow().settings, { port, plainPort }).replaceAll(
    /127\.0\.0\.1:300\d check port \d+/g,
    `127.0.0.1:${upstreamPort} check`,
  );
  const spoofed = {
    'x-forwarded-for': '198.51.100.1',
    'x-forwarded-proto': 'http',
    'x-forwarded-host': 'other.example.com',
  };
  const haproxy = await startDocumentedHaproxy(settings, async () => {
    return (await sendRequestOverHttp2({ port, host: HOST, cert }, '/', spoofed)).status === 200;
  });
  await haproxy.stop();
  const {
    'x-forwarded-for': address,
    'x-forwarded-proto': scheme,
    'x-forwarded-host': host,
  } = receivedHeaders.at(-1) ?? {};
  expect([address, scheme, host]).toEqual(['127.0.0.1', 'https', HOST]);
});

test('the steps of the document check the settings before HAProxy reads them', () => {
  expect(follow().called.slice(1)).toEqual([expect.stringMatching(/^haproxy -c -f /), 'systemctl reload haproxy']);
  expect(follow('exit 1').called.slice(1)).toEqual([expect.stringMatching(/^haproxy -c -f /)]);
});

test('HAProxy serves Gatehouse at a path of the host', async (context) => {
  skipIfMissing(context, missingHaproxy);
  const env = { PUBLIC_URL: `https://${HOST}/auth`, TRUSTED_PROXIES: '127.0.0.1', PORT: String(await freePort()) };
  const site = await startSite({ env });
  onTestFinished(() => site.close());
  const [port, plainPort] = [await freePort(), await freePort()];
  const settings = onThisMachine(follow().settings, { port, plainPort }).replaceAll(
    /127\.0\.0\.1:300\d check port \d+/g,
    `127.0.0.1:${site.env.PORT} check port ${site.env.MANAGEMENT_PORT}`,
  );
  const get = (path: string) => sendRequestOverHttp2({ port, host: HOST, cert }, path, { accept: 'text/html' });
  const haproxy = await startDocumentedHaproxy(settings, async () => (await get('/auth/')).status === 200);
  onTestFinished(() => haproxy.stop());
  const page = await get('/auth/connections');
  expect([page.status, page.headers.location]).toEqual([303, '/auth/sign-in?return_to=%2Fauth%2Fconnections']);
  const start = await get('/auth/sign-in');
  expect(new URL(String(start.headers.location)).searchParams.get('redirect_uri')).toBe(
    `https://${HOST}/auth/oauth/callback/platform`,
  );
  expect(site.logs().filter((line) => line.includes('PUBLIC_URL'))).toEqual([]);
});

describe('R74 HAProxy with Gatehouse behind it', () => {
  let site: TestSite;
  beforeAll(async () => {
    const env = { PUBLIC_URL: `https://${HOST}`, TRUSTED_PROXIES: '127.0.0.1', PORT: String(await freePort()) };
    site = await startSite({ env });
  });
  afterAll(() => site?.close());

  let haproxy: DocumentedHaproxy | undefined;
  let port: number;
  let plainPort: number;
  const get = (path: string, headers: Record<string, string> = {}): Promise<Http2Response> =>
    sendRequestOverHttp2({ port, host: HOST, cert }, path, headers);
  beforeEach(async (context) => {
    skipIfMissing(context, missingHaproxy);
    [port, plainPort] = [await freePort(), await freePort()];
    const { status, errors, settings } = follow();
    expect([status, errors]).toEqual([0, '']);
    const deadServer = `127.0.0.1:${await freePort()}`;
    const adapted = onThisMachine(settings, { port, plainPort })
      .replace('127.0.0.1:3000 check port 13000', `127.0.0.1:${site.env.PORT} check port ${site.env.MANAGEMENT_PORT}`)
      // The check of the dead server passes, as just before its next check.
      .replace('127.0.0.1:3001 check port 13001', `${deadServer} check port ${site.env.MANAGEMENT_PORT}`);
    haproxy = await startDocumentedHaproxy(adapted, async () => (await get('/')).status === 200);
  });
  afterEach(async () => {
    await haproxy?.stop();
    haproxy = undefined;
  });

  test('speaks TLS and HTTP/2, skips a dead process, and sets cookies only for https', async () => {
    const signInResponse = await get('/sign-in');
    expect(signInResponse.status).toBe(303);
    expect(signInResponse.headers.location).toContain(site.sandbox.issuer);
    expect(signInResponse.headers['set-cookie']?.join()).toMatch(/^__Host-gatehouse-tx-[\w-]{6}=[^;]+;.*; Secure/);

    const responses = await Promise.all(Array.from({ length: 8 }, () => get('/threads/current')));
    expect(responses.map(({ status }) => status)).toEqual(responses.map(() => 401));
  });

  test('compresses only styles and scripts, and redirects port 80 to https', async () => {
    const requestHeaders = { 'accept-encoding': 'gzip', accept: 'text/html' };
    const { headers, body } = await get(`${sharedAssets().path}/pico.css`, requestHeaders);
    expect([headers['content-encoding'], headers.vary]).toEqual(['gzip', expect.stringMatching(/Accept-Encoding/i)]);
    expect(gunzipSync(body).length).toBeGreaterThan(3 * body.length);

    for (const path of ['/', '/assets/none.css']) {
      const page = await get(path, requestHeaders);
      expect([page.headers['content-encoding'], page.body.includes('<html')]).toEqual([undefined, true]);
    }
    const plain = await sendRequest(`http://127.0.0.1:${plainPort}/bin/45717360?a=b`, {
      headers: { host: 'other.example.com' },
    });
    expect([plain.status, plain.headers.location]).toEqual([308, `https://${HOST}/bin/45717360?a=b`]);
  });

  test('R108 logs no card number, code, state or token, and the request id', async () => {
    const headers = {
      authorization: 'Bearer the-other-token',
      accept: 'application/json',
      referer: `https://${HOST}/?code=the-code`,
    };
    const responses: [Http2Response, string][] = [];
    for (const [target, logged] of REQUESTS) {
      if (!target.startsWith('http:')) responses.push([await get(target, headers), logged]);
    }
    const readLog = () => haproxy?.log() ?? '';
    const lineOf = ({ headers: responseHeaders }: Http2Response) =>
      readLog()
        .split('\n')
        .find((line) => line.endsWith(` ${responseHeaders['x-request-id']}`));
    await until(() => responses.every(([response]) => lineOf(response) !== undefined));
    for (const [response, logged] of responses) {
      expect(lineOf(response)).toContain(` GET ${logged} ${response.status} `);
      expect(response.headers['x-request-id']).toMatch(/^[\w-]{20,}$/);
    }
    expect(
      readLog()
        .replaceAll(/[0-9a-f-]{36}/g, '')
        .match(/\d{9}|[４５７]|%/),
    ).toBeNull();

    for (const secret of [...SECRETS, ...CARD_NUMBERS, encodeURIComponent(CARD_NUMBERS[1] ?? '')])
      expect(readLog()).not.toContain(secret);
  });
});
