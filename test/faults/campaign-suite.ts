/** Mixed load on real processes while faults are drawn at random: minutes of it in a long run, a few seconds in a short one. */
import { afterAll, describe, expect, type TestContext, test } from 'vitest';
import type { StoreKind } from '../support/fleet.ts';
import { skipWithout } from '../support/missing.ts';
import { missingRedis } from '../support/redis-server.ts';
import { runCampaign } from './campaign.ts';
import type { Stored } from './campaign-measures.ts';
import { createChance } from './chance.ts';
import { createFaultReport, LONG } from './report.ts';

const SECONDS = Number(process.env.CAMPAIGN_SECONDS ?? (LONG ? 1_800 : 8));
/** Of a long run: longer than a lease, twice over. */
const LONGEST_FAULT = Math.min(8_000, (SECONDS / 10) * 1_000);
/** What a process may have at the end, in relation to before the faults. A short run ends before the heap has settled. */
const MEMORY_FACTOR = LONG ? 1.5 : 2;
/** Connections to the store, the provider and the platform are kept, more of them after a rush. */
const MORE_DESCRIPTORS = 100;
/** Of a thread in relation to a bare proxy, so that what else the machine has to do counts for both. */
const LATENCY_FACTOR = 1.5;
/** The history of what users did is kept, as much for a request of the second half as for one of the first. */
const STORAGE_FACTOR = 1.5;

const megabytes = (bytes: number) => `${(bytes / 2 ** 20).toFixed(bytes < 1e8 ? 1 : 0)} MB`;

const perRequest = (from: Stored, to: Stored) => (to.bytes - from.bytes) / (to.requests - from.requests);

export function campaignSuite(kind: StoreKind): void {
  describe(`R38, R39, F1 to F27 at random on ${kind}`, () => defineTests(kind));
}

function defineTests(kind: StoreKind): void {
  const report = createFaultReport();
  const chance = createChance(process.env.CAMPAIGN_SEED);
  afterAll(() => report.print(`Campaign on ${kind}, seed ${chance.seed}`));

  test(`${SECONDS} s: nothing wrong is answered, nothing promised is lost, memory, descriptors, storage and latency stay, and all recovers`, async (context: TestContext) => {
    skipWithout(context, kind === 'Redis' ? missingRedis : undefined);
    process.stdout.write(`Campaign on ${kind}: CAMPAIGN_SEED=${chance.seed}\n`);
    await report.run(`mixed load for ${SECONDS} s with these faults`, 1, async () => {
      const account = await runCampaign({
        ...{ kind, chance, seconds: SECONDS },
        ...(LONG
          ? {
              processes: 3,
              people: 30,
              calmSeconds: Math.min(60, SECONDS / 4),
              faultMilliseconds: [300, LONGEST_FAULT],
            }
          : { processes: 2, people: 12, calmSeconds: 2, faultMilliseconds: [100, 700] }),
      });
      const { journal, strikes, refreshes, losses, wrongs, before, halfway, after } = account;
      for (const [fault, count] of strikes) report.add(fault, count, 'struck');
      for (const [what, { served, refused, cut }] of journal.tallies())
        report.add(`asked for: ${what}`, served + refused + cut, `${served} served, ${refused} refused, ${cut} cut`);
      report.add('memory of a process', 1, `${megabytes(before.memory)} before, ${megabytes(after.memory)} after`);
      report.add('its file descriptors', 1, `${before.descriptors} before, ${after.descriptors} after`);
      const storage = [before.stored, halfway, after.stored].map(
        ({ bytes, requests }) => `${megabytes(bytes)} after ${requests} requests`,
      );
      report.add('storage, with the history of all requests', 1, storage.join(', then '));
      const latency = [before, after].map(
        ({ latency, bareLatency }) => `${latency.toFixed(1)} ms where a bare proxy took ${bareLatency.toFixed(1)} ms`,
      );
      report.add('median of a thread in calm times, for one caller', 1, `before: ${latency.join('; after: ')}`);
      expect(wrongs).toEqual([]);
      expect(after.memory).toBeLessThan(MEMORY_FACTOR * before.memory);
      expect(after.descriptors).toBeLessThan(before.descriptors + MORE_DESCRIPTORS);
      if (LONG) {
        const [first = Number.NaN, last] = [before, after].map(({ latency, bareLatency }) => latency / bareLatency);
        expect(last).toBeLessThan(LATENCY_FACTOR * first);
        expect(perRequest(halfway, after.stored)).toBeLessThan(STORAGE_FACTOR * perRequest(before.stored, halfway));
      }
      // A campaign in which nobody is ever served would show nothing.
      expect([...journal.tallies()].filter(([, { served }]) => served === 0)).toEqual([]);
      expect(refreshes).toBeGreaterThan(0);
      const told = `${losses} times told of a lost answer`;
      return `${journal.total()} requests, ${refreshes} refreshes, ${told}`;
    });
  });
}
