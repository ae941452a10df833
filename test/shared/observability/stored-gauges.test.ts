/** Gauges of what the storage holds: connections, the last backup, client secrets, and the time of commands. */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createMetrics } from '../../../src/shared/observability/metrics.ts';
import { ask } from '../../support/ask.ts';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { runCommand } from '../../support/terminal.ts';

let site: TestSite;
beforeAll(async () => {
  site = await startSite();
});
afterAll(() => site.close());

const DAY_MS = 86_400_000;

async function valueIn(text: string | Promise<string>, series: string): Promise<number | undefined> {
  const line = (await text).split('\n').find((one) => one.startsWith(`gatehouse_${series} `));
  return line === undefined ? undefined : Number(line.split(' ')[1]);
}

const scraped = async (series: string) => valueIn((await ask(`${site.managementUrl}/metrics`)).body, series);

test('a running Gatehouse counts its connections, and the time since a backup that a command made', async () => {
  expect(await scraped('last_backup_age_seconds')).toBeUndefined();
  await signIn(site, undefined, { path: '/sign-in?return_to=/connections' });
  const { status } = await runCommand(['backup', join(site.dataDirectory, '..', 'a.backup')], site.env);
  expect(status).toBe(0);
  // What the storage holds is read at the start, and then once a minute.
  await site.restart();
  await expect.poll(() => scraped('connections{health="active"}')).toBe(1);
  expect(await scraped('connections{health="reconnect_needed"}')).toBe(0);
  const age = await scraped('last_backup_age_seconds');
  expect(age).toBeGreaterThan(0);
  expect(age).toBeLessThan(600);
});

test('commands of the storage are timed by their name', async () => {
  await signIn(site);
  expect(await scraped('storage_command_duration_seconds_count{command="write"}')).toBeGreaterThan(0);
  expect(await scraped('storage_command_duration_seconds_count{command="get"}')).toBeGreaterThan(0);
});

test('the storage is read once a minute, and a scrape waits for none of it', async () => {
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
  for (let scrape = 0; scrape < 3; scrape += 1) {
    expect(await valueIn(metrics.registry.metrics(), 'connections{health="active"}')).toBeUndefined();
  }
  expect(reads).toBe(1);
});

test('the time until a client secret ends, for as long as the app has it', async () => {
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
