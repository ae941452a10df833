/** R123: a call whose service disconnects is not counted as a failure of the platform. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startSite, type TestSite } from '../../support/gatehouse.ts';
import { until } from '../../support/until.ts';
import { openStorageOf } from '../grants/storage-access.ts';
import { drip, type ScriptedPlatform, startScriptedPlatform } from '../platform/scripted-platform.ts';
import { type Administrator, bearer, createAdministrator } from './service.ts';

const EMPTY_THREAD = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}';

let site: TestSite;
let platform: ScriptedPlatform;
let admin: Administrator;
let headers: Record<string, string>;
beforeAll(async () => {
  platform = await startScriptedPlatform();
  site = await startSite({ app: { apiBaseUrl: platform.url } });
  const storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  await storage.close();
  platform.respondWith((socket) => void socket.write(EMPTY_THREAD));
  const account = await admin.call('POST', '/service-accounts', {
    name: 'Nightly',
    app: 'platform',
    apiToken: 'api-token',
  });
  const { token } = await admin.createRelayToken({ users: 'none' });
  headers = { ...bearer(token), 'gatehouse-service-account': String(account.json.id) };
});
afterAll(async () => {
  await site.close();
  await platform.close();
});

/** The number of calls in the metrics, by outcome. */
async function readCallCounts(): Promise<Record<string, number>> {
  const response = await fetch(`${site.managementUrl}/metrics`);
  const METRIC = /^gatehouse_relay_calls_total\{app="(?:platform|none)",outcome="(\w+)"\} (\d+)$/gm;
  const sums: Record<string, number> = {};
  for (const [, outcome = '', count] of (await response.text()).matchAll(METRIC)) {
    sums[outcome] = (sums[outcome] ?? 0) + Number(count);
  }
  return sums;
}

const countCompleted = ({ succeeded = 0, failed = 0 }: Record<string, number>) => succeeded + failed;

/** Makes a call, and disconnects as soon as `isReady` returns true. */
async function callAndDisconnect(path: string, isReady: () => boolean): Promise<void> {
  const controller = new AbortController();
  const body = fetch(`${site.url}${path}`, { headers, signal: controller.signal }).then((response) => response.text());
  body.catch(() => undefined);
  await until(isReady);
  controller.abort();
  await expect(body).rejects.toThrow();
}

test.each(['before the head', 'in mid-body'])(
  'R123 does not count a failure if the service disconnects %s',
  async (moment) => {
    const countsBefore = await readCallCounts();
    let isOpen = false;
    platform.respondWith((socket) => {
      isOpen = true;
      if (moment === 'before the head') return;
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n${'x'.repeat(500)}`);
      drip(socket, 'x');
    });
    await callAndDisconnect('/relay/threads/current', () => isOpen);
    await until(async () => countCompleted(await readCallCounts()) === countCompleted(countsBefore) + 1);
    expect((await readCallCounts()).failed).toBe(countsBefore.failed);
  },
);

test('R123 counts a failure if the platform breaks off its response', async () => {
  const countsBefore = await readCallCounts();
  platform.respondWith(
    (socket) => void socket.end('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{"a\r\n'),
  );
  const response = await fetch(`${site.url}/relay/threads/current`, { headers });
  await expect(response.text()).rejects.toThrow();
  await until(async () => (await readCallCounts()).failed === (countsBefore.failed ?? 0) + 1);
});
