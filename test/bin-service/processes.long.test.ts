/** Several processes on one storage: the count is exact, survives restarts and kills, and never passes the limit. */
import type { TestContext } from 'vitest';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { skipWithout } from '../support/missing.ts';
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
const asking = (url: string) => (count: number) => statuses(`${url}/45717360`, count, { connections: 8 });

/** A process of its own. */
async function start() {
  const started = await startBinProcess(await settingsFor(settings()));
  running.push(started.program);
  return { ...started, ask: asking(started.url) };
}

/** In this process, with a store and reservations of its own: as good as another one, and sooner there. */
async function open(env: Record<string, string> = {}) {
  const site = await startBinSite(settings(env));
  return { close: site.close, ask: asking(site.url) };
}

async function stop(program: Program, signal: NodeJS.Signals): Promise<void> {
  running = running.filter((one) => one !== program);
  program.signal(signal);
  await program.ended;
}

const granted = (counts: Record<number, number>[]) => counts.reduce((sum, count) => sum + (count[200] ?? 0), 0);

describe('R87 two processes on one store', () => {
  test('grant the limit between them and nothing past it, however uneven they are asked', async () => {
    const [one, other] = await Promise.all([start(), start()]);
    expect(await Promise.all([one.ask(1_300), other.ask(500)])).toEqual([{ 200: 1_300 }, { 200: 500 }]);
    expect(await other.ask(300)).toEqual({ 200: 200, 429: 100 });
    expect(await one.ask(20)).toEqual({ 429: 20 });
  });

  test('the same on Redis, where every key carries the service’s prefix', async (context: TestContext) => {
    skipWithout(context, missingRedis);
    const redis = await startRedis();
    const services = [await open({ REDIS_URL: redis.url }), await open({ REDIS_URL: redis.url })];
    try {
      expect(granted(await Promise.all(services.map(({ ask }) => ask(1_500))))).toBe(LIMIT);
      const names = redis.ask('KEYS', '*').split('\n');
      expect(names.every((name) => name === '' || name.startsWith('bin-service:'))).toBe(true);
    } finally {
      await Promise.all(services.map(({ close }) => close()));
      await redis.dispose();
    }
  });
});

describe('R87 a restart', () => {
  test('in order loses no request and grants none twice', async () => {
    const first = await open();
    expect(await first.ask(700)).toEqual({ 200: 700 });
    await first.close();
    const second = await open();
    expect(await second.ask(1_400)).toEqual({ 200: 1_300, 429: 100 });
    await second.close();
  });

  test('after kill -9 under load never passes the limit, and loses no more than was under way', async () => {
    const killed = await start();
    const counting = killed.ask(1_500);
    // Many are counted by then, and many are to come.
    const first = await killed.ask(50);
    await stop(killed.program, 'SIGKILL');
    const last = await start();
    const total = granted([first, await counting, await last.ask(LIMIT + 50)]);
    expect(total).toBeLessThanOrEqual(LIMIT);
    // Counted, but not answered: one for each connection.
    expect(total).toBeGreaterThanOrEqual(LIMIT - 16);
    await stop(last.program, 'SIGTERM');
    expect(await last.program.ended).toEqual({ status: 0, signal: null });
  });
});

describe('the text at the start', () => {
  test('names the settings that switch accounts on, where they are off', async () => {
    const { program, url } = await start();
    const text = program.stdout();
    for (const name of ['SIGN_IN_ISSUER', 'SIGN_IN_CLIENT_ID', 'SIGN_IN_CLIENT_SECRET', 'INTERNAL_HOSTS'])
      expect(text).toContain(name);
    expect(text).toContain(`${url}/account/callback`);
    expect((await fetch(`${url}/account/sign-in`)).status).toBe(404);
  });

  test('names the account page where they are on', async () => {
    const signIn = { SIGN_IN_ISSUER: 'https://idp.example.com', SIGN_IN_CLIENT_ID: 'bins' };
    const env = await settingsFor(settings({ ...signIn, SIGN_IN_CLIENT_SECRET: 'a secret of this test' }));
    const { program, url } = await startBinProcess(env);
    running.push(program);
    expect(program.stdout()).toContain(`${url}/account in a browser`);
    expect(program.stdout()).not.toContain('SIGN_IN_ISSUER');
  });
});
