/** Mixed load on real processes with random faults: minutes in a long run, seconds in a short one. */
import { afterAll, describe, expect, type TestContext, test } from 'vitest';
import type { StoreKind } from '../support/fleet.ts';
import { skipIfMissing } from '../support/missing.ts';
import { missingRedis } from '../support/redis-server.ts';
import { runCampaign } from './campaign.ts';
import type { Measures, Stored } from './campaign-measures.ts';
import { createChance } from './chance.ts';
import { createFaultReport, LONG } from './report.ts';

const SECONDS = Number(process.env.CAMPAIGN_SECONDS ?? (LONG ? 1_800 : 8));
/** In a long run: more than two leases. */
const MAX_FAULT_MILLISECONDS = Math.min(8_000, (SECONDS / 10) * 1_000);
/** Maximum memory after the faults relative to before. A short run ends before the heap is stable. */
const MAX_MEMORY_FACTOR = LONG ? 1.5 : 2;
/** Idle connections to the store, the provider and the platform stay open; after high load there are more. */
const EXTRA_DESCRIPTORS = 100;
/** For the latency of a thread relative to a bare proxy, so that other load on the machine affects both. */
const LATENCY_FACTOR = 1.5;
/** The history of users is stored, with about the same size per request in both halves. */
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

  test(`${SECONDS} s: no wrong response, nothing lost, stable memory, descriptors, storage and latency, full recovery`, async (context: TestContext) => {
    skipIfMissing(context, kind === 'Redis' ? missingRedis : undefined);
    process.stdout.write(`Campaign on ${kind}: CAMPAIGN_SEED=${chance.seed}\n`);
    await report.run(`mixed load for ${SECONDS} s with these faults`, 1, async () => {
      const result = await runCampaign({
        kind,
        chance,
        seconds: SECONDS,
        ...(LONG
          ? {
              processes: 3,
              users: 30,
              calmSeconds: Math.min(60, SECONDS / 4),
              faultMilliseconds: [300, MAX_FAULT_MILLISECONDS],
            }
          : { processes: 2, users: 12, calmSeconds: 2, faultMilliseconds: [100, 700] }),
      });
      const { journal, strikes, refreshes, losses, violations, before, halfway, after } = result;
      for (const [fault, count] of strikes) report.add(fault, count, 'occurred');
      for (const [kind, { served, refused, cut }] of journal.tallies())
        report.add(`requests: ${kind}`, served + refused + cut, `${served} served, ${refused} refused, ${cut} cut`);
      report.add('memory of a process', 1, `${megabytes(before.memory)} before, ${megabytes(after.memory)} after`);
      report.add('its file descriptors', 1, `${before.descriptors} before, ${after.descriptors} after`);
      const sizes = [before.stored, halfway, after.stored].map(
        ({ bytes, requests }) => `${megabytes(bytes)} after ${requests} requests`,
      );
      report.add('storage, with the history of all requests', 1, sizes.join(', then '));
      const latencyOf = ({ latency, bareLatency }: Measures) =>
        `${latency.toFixed(1)} ms, bare proxy ${bareLatency.toFixed(1)} ms`;
      const latencies = `before: ${latencyOf(before)}; after: ${latencyOf(after)}`;
      report.add('median of a thread without faults, for one caller', 1, latencies);

      expect(violations).toEqual([]);
      expect(after.memory).toBeLessThan(MAX_MEMORY_FACTOR * before.memory);
      expect(after.descriptors).toBeLessThan(before.descriptors + EXTRA_DESCRIPTORS);

      if (LONG) {
        const relativeLatency = ({ latency, bareLatency }: Measures) => latency / bareLatency;
        expect(relativeLatency(after)).toBeLessThan(LATENCY_FACTOR * relativeLatency(before));
        expect(perRequest(halfway, after.stored)).toBeLessThan(STORAGE_FACTOR * perRequest(before.stored, halfway));
      }
      // A campaign without served requests would show nothing.
      expect([...journal.tallies()].filter(([, { served }]) => served === 0)).toEqual([]);
      expect(refreshes).toBeGreaterThan(0);

      const reconnects = `${losses} reconnections after a lost response`;
      return `${journal.total()} requests, ${refreshes} refreshes, ${reconnects}`;
    });
  });
}
