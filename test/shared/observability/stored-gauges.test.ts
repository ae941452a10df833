/** Gauges of stored facts: connections, the last backup, client secrets. Also the time of storage commands. */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createMetrics } from '../../../src/shared/observability/metrics.ts';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { sendRequest } from '../../support/send-request.ts';
import { runCommand } from '../../support/terminal.ts';

let site: TestSite;
beforeAll(async () => {
  site = await startSite();
});
afterAll(() => site.close());

const DAY_MS = 86_400_000;

async function valueIn(body: string | Promise<string>, series: string): Promise<number | undefined> {
  const line = (await body).split('\n').find((text) => text.startsWith(`gatehouse_${series} `));
  return line === undefined ? undefined : Number(line.split(' ')[1]);
}

const scrape = async (series: string) => valueIn((await sendRequest(`${site.managementUrl}/metrics`)).body, series);

test('a running Gatehouse reports its connections, and the time since a backup by a command', async () => {
  expect(await scrape('last_backup_age_seconds')).toBeUndefined();

  await signIn(site, undefined, { path: '/sign-in?return_to=/connections' });
  const { status } = await runCommand(['backup', join(site.dataDirectory, '..', 'a.backup')], site.env);
  expect(status).toBe(0);

  // Stored facts are read at the start, and then once a minute.
  await site.restart();
  await expect.poll(() => scrape('connections{health="active"}')).toBe(1);
  expect(await scrape('connections{health="reconnect_needed"}')).toBe(0);

  const age = await scrape('last_backup_age_seconds');
  expect(age).toBeGreaterThan(0);
  expect(age).toBeLessThan(600);
});

test('storage commands are timed by name', async () => {
  await signIn(site);
  expect(await scrape('storage_command_duration_seconds_count{command="write"}')).toBeGreaterThan(0);
  expect(await scrape('storage_command_duration_seconds_count{command="get"}')).toBeGreaterThan(0);
});

test('the storage is read once a minute, and a scrape does not wait for it', async () => {
  const metrics = createMetrics();
  let reads = 0;
  metrics.watchStored({
    read() {
      reads += 1;
      return new Promise(() => undefined);
    },
    secretEnds: () => [],
    clock: () => 0,
  });
  for (let count = 0; count < 3; count += 1) {
    expect(await valueIn(metrics.registry.metrics(), 'connections{health="active"}')).toBeUndefined();
  }
  expect(reads).toBe(1);
});

test('the time until a client secret ends, as long as the app has the secret', async () => {
  const metrics = createMetrics();
  let ends = [
    { app: 'crm', endsAt: 10 * DAY_MS },
    { app: 'old', endsAt: 2 * DAY_MS },
  ];
  metrics.watchStored({
    read: async () => ({ connections: {}, lastBackupAt: undefined }),
    secretEnds: () => ends,
    clock: () => 4 * DAY_MS,
  });
  const remaining = (app: string) =>
    valueIn(metrics.registry.metrics(), `client_secret_remaining_seconds{app="${app}"}`);
  expect([await remaining('crm'), await remaining('old')]).toEqual([(6 * DAY_MS) / 1_000, (-2 * DAY_MS) / 1_000]);

  ends = ends.slice(1);
  expect([await remaining('crm'), await remaining('old')]).toEqual([undefined, (-2 * DAY_MS) / 1_000]);
});
