/** A caller that disconnects ends the call to the platform, and a platform that hangs leads to a 504 in time. */
import { connect } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { startStopwatch } from '../../support/stopwatch.ts';
import { until } from '../../support/until.ts';
import { openStorageOf } from '../grants/storage-access.ts';
import { bearer, createAdministrator } from '../relay/service.ts';
import { drip, type ScriptedPlatform, startScriptedPlatform } from './scripted-platform.ts';

let site: TestSite;
let platform: ScriptedPlatform;
let headers: { cookie: string; accept: string };
beforeAll(async () => {
  platform = await startScriptedPlatform();
  site = await startSite({ app: { apiBaseUrl: platform.url } });
  const { agent } = await signIn(site);
  headers = { cookie: agent.cookies.header(site.url), accept: 'application/json' };
});
afterAll(async () => {
  await site.close();
  await platform.close();
});

/** The lines about failed requests that were logged after this number of lines. */
const failedRequestsSince = (linesBefore: number) =>
  site
    .logs()
    .slice(linesBefore)
    .filter((line) => line.includes('request failed'));
const EMPTY_THREAD = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}';
const readThread = (signal?: AbortSignal) => fetch(`${site.url}/threads/current`, { headers, signal: signal ?? null });

test('F15: 300 callers that disconnect before the head or during the body leave no connection and no error', async () => {
  platform.respondWith((socket) => {
    // Every second call gets no response at all.
    if (platform.requests.length % 2 === 0) return;
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n');
    drip(socket, 'x');
  });
  const linesBefore = site.logs().length;
  for (let round = 0; round < 10; round += 1) {
    const calls = Array.from({ length: 30 }, async () => {
      const caller = new AbortController();
      const response = readThread(caller.signal).then((thread) => thread.text());
      setTimeout(() => caller.abort(), 60);
      await expect(response).rejects.toThrow();
    });
    await Promise.all(calls);
  }
  await until(() => platform.countConnections() === 0);
  // A disconnect is not an error of the platform or of Gatehouse.
  expect(failedRequestsSince(linesBefore)).toEqual([]);
  platform.respondWith((socket) => void socket.write(EMPTY_THREAD));
  expect((await readThread()).status).toBe(200);
});

test('F15: 2,000 callers that disconnect during the response leave no connection, and the next call succeeds at once', async () => {
  platform.respondWith((socket) => {
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n${'x'.repeat(1000)}`);
    drip(socket, 'x');
  });
  const { hostname, port } = new URL(site.url);
  const request = [
    'GET /threads/current HTTP/1.1',
    `Host: ${hostname}:${port}`,
    'Accept: application/json',
    `Cookie: ${headers.cookie}`,
    '',
    '',
  ].join('\r\n');
  for (let round = 0; round < 4; round += 1) {
    let responses = 0;
    const callers = Array.from({ length: 500 }, () => {
      const socket = connect(Number(port), hostname, () => socket.write(request));
      socket.on('error', () => undefined);
      socket.once('data', () => {
        responses += 1;
      });
      return socket;
    });
    // Calls with a connection to the platform get part of a response; the others wait for a connection.
    await until(() => responses >= 32);
    for (const socket of callers) socket.destroy();
  }
  platform.respondWith((socket) => void socket.write(EMPTY_THREAD));
  const elapsed = startStopwatch();
  expect((await readThread()).status).toBe(200);
  expect(elapsed()).toBeLessThan(2_000);
  // At most the connection of that call is kept for the next one.
  await until(() => platform.countConnections() <= 1);
});

test('F15: a service that disconnects ends the call of its service account', async () => {
  const storage = await openStorageOf(site);
  const admin = await createAdministrator(site, storage);
  await storage.close();
  platform.respondWith((socket) => void socket.write(EMPTY_THREAD));
  const account = { name: 'Nightly', app: 'platform', apiToken: 'api-token' };
  const createdAccount = await admin.call('POST', '/service-accounts', account);
  expect(createdAccount.status).toBe(201);
  const { token } = await admin.createRelayToken({ users: 'none' });
  let platformConnection: 'none' | 'open' | 'closed' = 'none';
  platform.respondWith((socket) => {
    platformConnection = 'open';
    socket.once('close', () => {
      platformConnection = 'closed';
    });
  });
  const caller = new AbortController();
  const response = fetch(`${site.url}/relay/threads/current`, {
    headers: { ...bearer(token), 'gatehouse-service-account': String(createdAccount.json.id) },
    signal: caller.signal,
  });
  await until(() => platformConnection === 'open');
  caller.abort();
  await expect(response).rejects.toThrow();
  const elapsed = startStopwatch();
  await until(() => platformConnection === 'closed');
  // Otherwise Gatehouse would have waited for the platform, for 15 s or longer.
  expect(elapsed()).toBeLessThan(10_000);
});

test('a body that breaks off is logged, and never ends as a complete response', async () => {
  platform.respondWith(
    (socket) => void socket.end('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{"a\r\n'),
  );
  const linesBefore = site.logs().length;
  const response = await readThread();
  expect(response.status).toBe(200);
  await expect(response.text()).rejects.toThrow();
  await until(() => failedRequestsSince(linesBefore).length === 1);
  expect(failedRequestsSince(linesBefore)[0]).toContain('"code":"platform_error"');
});

test('platform_timeout is 504 and comes within 16 s', async () => {
  platform.respondWith(() => undefined);
  const elapsed = startStopwatch();
  const response = await readThread();
  expect(elapsed()).toBeLessThan(16_000);
  expect([response.status, ((await response.json()) as { code: string }).code]).toEqual([504, 'platform_timeout']);
  expect(response.headers.get('proxy-status')).toBe('gatehouse; error=connection_timeout');
});
