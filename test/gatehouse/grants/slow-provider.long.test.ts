/** F10 and F11 in real time: a provider that hangs or drips delays no request beyond the deadlines. */
import { describe, expect, test } from 'vitest';
import type { FaultKind } from '../../../src/sandbox/faults.ts';
import { getJson, signIn, startSite } from '../../support/gatehouse.ts';
import { startStopwatch } from '../../support/stopwatch.ts';
import { until } from '../../support/until.ts';
import { openStorageOf, sessionOf } from './storage-access.ts';

/** A user of a separate site whose grant is changed directly, since time is real here. */
async function visit(fault: FaultKind, leftMilliseconds: number) {
  const site = await startSite();
  const storage = await openStorageOf(site);
  const { agent } = await signIn(site);
  const { userId } = await sessionOf(site, agent);
  const expiresAt = Date.now() + leftMilliseconds;
  await storage.changeGrant(userId, () => ({ obtainedAt: expiresAt - 600_000, expiresAt }));
  site.sandbox.requests.reset();
  const off = site.sandbox.faults.set({ listener: 'identity-provider', path: '/token', ...fault });
  const close = async () => {
    off();
    await storage.close();
    await site.close();
  };
  return { site, storage, agent, userId, off, close };
}

const timed = async <T>(work: Promise<T>): Promise<[T, number]> => {
  const took = startStopwatch();
  return [await work, took() / 1000];
};

const never = () => new Promise<never>(() => undefined);

describe.concurrent('a token endpoint', () => {
  test.each<[string, FaultKind]>([
    ['that hangs', { kind: 'hold', until: never() }],
    ['that drips', { kind: 'drip', intervalMs: 500 }],
  ])(
    '%s, expired access token: 503 provider_unavailable by the deadline, and it recovers by itself',
    async (_name, fault) => {
      const { site, storage, agent, userId, off, close } = await visit(fault, -1_000);
      const url = `${site.url}/threads/current`;
      const [answers, seconds] = await timed(
        Promise.all([getJson(agent, url), getJson(agent, url), getJson(agent, url)]),
      );
      expect(answers.map(({ status, json }) => [status, json.code])).toEqual(
        Array(3).fill([503, 'provider_unavailable']),
      );
      expect(seconds).toBeLessThan(17);
      expect(site.sandbox.requests.count('POST /token')).toBe(1);
      // The refresh ends by its own deadline, not by that of the request.
      await until(async () => (await storage.readGrant(userId)).failure?.cause === 'provider_unavailable');
      off();
      await storage.changeGrant(userId, ({ failure }) => ({ failure: failure && { ...failure, retryAt: Date.now() } }));
      expect((await getJson(agent, url)).status).toBe(200);
      await close();
    },
  );

  test('that hangs, working access token: every request succeeds with the old token, and none waits long', async () => {
    const { site, agent, close } = await visit({ kind: 'hold', until: never() }, 30_000);
    for (let round = 0; round < 3; round += 1) {
      const [{ status }, seconds] = await timed(getJson(agent, `${site.url}/threads/current`));
      expect(status).toBe(200);
      expect(seconds).toBeLessThan(3);
    }
    expect(site.sandbox.requests.count('POST /token')).toBe(1);
    await close();
  });

  test('that hangs, expired access token: the home page is shown within 5 s', async () => {
    const { site, agent, close } = await visit({ kind: 'hold', until: never() }, -1_000);
    const [page, seconds] = await timed(agent.get(`${site.url}/`));
    expect(page.status).toBe(200);
    expect(seconds).toBeLessThan(5);
    expect(page.forms.some(({ names }) => names.includes('bin'))).toBe(true);
    expect(page.body).toContain('The sign-in provider does not respond');
    await close();
  });
});
