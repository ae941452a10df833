/** F10 and F11 in real time: a provider that hangs or drips delays no request beyond the deadlines. */
import { describe, expect, test } from 'vitest';
import type { FaultKind } from '../../../src/sandbox/faults.ts';
import { getJson, signIn, startSite } from '../../support/gatehouse.ts';
import { startStopwatch } from '../../support/stopwatch.ts';
import { until } from '../../support/until.ts';
import { openStorageOf, sessionOf } from './storage-access.ts';

/**
 * Starts a site for one user and a provider with this fault. The stored expiry is changed, since time is real here.
 * @param remainingMs how long the access token is still valid
 */
async function startSiteWithFault(fault: FaultKind, remainingMs: number) {
  const site = await startSite();
  const storage = await openStorageOf(site);
  const { agent } = await signIn(site);
  const { userId } = await sessionOf(site, agent);
  const expiresAt = Date.now() + remainingMs;
  await storage.changeGrant(userId, () => ({ obtainedAt: expiresAt - 600_000, expiresAt }));
  site.sandbox.requests.reset();
  const endFault = site.sandbox.faults.set({ listener: 'identity-provider', path: '/token', ...fault });
  const close = async () => {
    endFault();
    await storage.close();
    await site.close();
  };
  return { site, storage, agent, userId, endFault, close };
}

/** Returns the result of the work, and the seconds that it took. */
const measure = async <T>(work: Promise<T>): Promise<[T, number]> => {
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
      const { site, storage, agent, userId, endFault, close } = await startSiteWithFault(fault, -1_000);
      const url = `${site.url}/threads/current`;

      const [responses, seconds] = await measure(
        Promise.all([getJson(agent, url), getJson(agent, url), getJson(agent, url)]),
      );
      expect(responses.map(({ status, json }) => [status, json.code])).toEqual(
        Array(3).fill([503, 'provider_unavailable']),
      );
      expect(seconds).toBeLessThan(17);
      expect(site.sandbox.requests.count('POST /token')).toBe(1);

      // The refresh ends by its own deadline, not by that of the request.
      await until(async () => (await storage.readGrant(userId)).failure?.cause === 'provider_unavailable');
      endFault();
      await storage.changeGrant(userId, ({ failure }) => ({ failure: failure && { ...failure, retryAt: Date.now() } }));

      expect((await getJson(agent, url)).status).toBe(200);

      await close();
    },
  );

  test('that hangs, working access token: every request succeeds with the old token, and none waits long', async () => {
    const { site, agent, close } = await startSiteWithFault({ kind: 'hold', until: never() }, 30_000);
    for (let round = 0; round < 3; round += 1) {
      const [{ status }, seconds] = await measure(getJson(agent, `${site.url}/threads/current`));
      expect(status).toBe(200);
      expect(seconds).toBeLessThan(3);
    }
    expect(site.sandbox.requests.count('POST /token')).toBe(1);

    await close();
  });

  test('that hangs, expired access token: the home page is shown within 5 s', async () => {
    const { site, agent, close } = await startSiteWithFault({ kind: 'hold', until: never() }, -1_000);
    const [page, seconds] = await measure(agent.get(`${site.url}/`));
    expect(page.status).toBe(200);
    expect(seconds).toBeLessThan(5);
    expect(page.forms.some(({ names }) => names.includes('bin'))).toBe(true);
    expect(page.body).toContain('The sign-in provider does not respond');

    await close();
  });
});
