/** Several processes on one storage: the count is exact, survives restarts and kills, and never passes the limit. */
import type { TestContext } from 'vitest';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { skipIfMissing } from '../support/missing.ts';
import type { Program } from '../support/program.ts';
import { missingRedis, startRedis } from '../support/redis-server.ts';
import { settingsFor, startBinProcess, startBinSite, statuses, temporaryFolder } from './site.ts';

const LIMIT = 2_000;

let running: Program[] = [];
let folder: ReturnType<typeof temporaryFolder>;
beforeEach(() => {
  folder = temporaryFolder();
});
afterEach(async () => {
  for (const program of running) program.signal('SIGKILL');
  await Promise.all(running.map(({ ended }) => ended));
  running = [];
  folder.remove();
});

const settings = (env: Record<string, string> = {}) => ({
  ...{ FREE_MONTHLY_REQUESTS: String(LIMIT), BAN_REFUSALS: '100000', DATA_DIR: folder.path },
  ...env,
});
const requestsTo = (url: string) => (count: number) => statuses(`${url}/45717360`, count, { connections: 8 });

/** Starts a separate process. */
async function startProcess() {
  const started = await startBinProcess(await settingsFor(settings()));
  running.push(started.program);
  return { ...started, send: requestsTo(started.url) };
}

/** Starts the service in this process with its own store and quotas, which is faster than a separate process. */
async function startInThisProcess(env: Record<string, string> = {}) {
  const site = await startBinSite(settings(env));
  return { close: site.close, send: requestsTo(site.url) };
}

async function stop(program: Program, signal: NodeJS.Signals): Promise<void> {
  running = running.filter((other) => other !== program);
  program.signal(signal);
  await program.ended;
}

/** The number of responses with status 200. */
const countGranted = (statusCounts: Record<number, number>[]) =>
  statusCounts.reduce((sum, counts) => sum + (counts[200] ?? 0), 0);

describe('R87 two processes on one store', () => {
  test('together grant exactly the limit, even under uneven load', async () => {
    const [first, second] = await Promise.all([startProcess(), startProcess()]);
    expect(await Promise.all([first.send(1_300), second.send(500)])).toEqual([{ 200: 1_300 }, { 200: 500 }]);
    expect(await second.send(300)).toEqual({ 200: 200, 429: 100 });
    expect(await first.send(20)).toEqual({ 429: 20 });
  });

  test('together grant exactly the limit on Redis, where every key has the prefix of the service', async (context: TestContext) => {
    skipIfMissing(context, missingRedis);
    const redis = await startRedis();
    const services = [
      await startInThisProcess({ REDIS_URL: redis.url }),
      await startInThisProcess({ REDIS_URL: redis.url }),
    ];
    try {
      expect(countGranted(await Promise.all(services.map(({ send }) => send(1_500))))).toBe(LIMIT);
      const names = redis.sendCommand('KEYS', '*').split('\n');
      expect(names.every((name) => name === '' || name.startsWith('bin-lookup-service:'))).toBe(true);
    } finally {
      await Promise.all(services.map(({ close }) => close()));
      await redis.dispose();
    }
  });
});

describe('R87 a restart', () => {
  test('after a clean stop, loses no count and grants nothing twice', async () => {
    const first = await startInThisProcess();
    expect(await first.send(700)).toEqual({ 200: 700 });
    await first.close();
    const second = await startInThisProcess();
    expect(await second.send(1_400)).toEqual({ 200: 1_300, 429: 100 });
    await second.close();
  });

  test('after kill -9 under load, stays within the limit and loses at most the requests in flight', async () => {
    const killed = await startProcess();
    const unfinished = killed.send(1_500);
    // When these have responses, many other requests are counted, and many are not yet sent.
    const finished = await killed.send(50);
    await stop(killed.program, 'SIGKILL');
    const last = await startProcess();
    const total = countGranted([finished, await unfinished, await last.send(LIMIT + 50)]);
    expect(total).toBeLessThanOrEqual(LIMIT);
    // One request of each connection can be counted without a response.
    expect(total).toBeGreaterThanOrEqual(LIMIT - 16);
    await stop(last.program, 'SIGTERM');
    expect(await last.program.ended).toEqual({ status: 0, signal: null });
  });
});

describe('the text that a start prints', () => {
  test('names the settings that enable accounts, if they are disabled', async () => {
    const { program, url } = await startProcess();
    const text = program.stdout();
    for (const name of ['SIGN_IN_ISSUER', 'SIGN_IN_CLIENT_ID', 'SIGN_IN_CLIENT_SECRET', 'INTERNAL_HOSTS'])
      expect(text).toContain(name);
    expect(text).toContain(`${url}/account/callback`);
    expect((await fetch(`${url}/account/sign-in`)).status).toBe(404);
  });

  test('names the account page, if accounts are enabled', async () => {
    const signIn = { SIGN_IN_ISSUER: 'https://idp.example.com', SIGN_IN_CLIENT_ID: 'bins' };
    const env = await settingsFor(settings({ ...signIn, SIGN_IN_CLIENT_SECRET: 'a secret of this test' }));
    const { program, url } = await startBinProcess(env);
    running.push(program);
    expect(program.stdout()).toContain(`${url}/account in a browser`);
    expect(program.stdout()).not.toContain('SIGN_IN_ISSUER');
  });
});
