/** Mixed load on real processes while faults are drawn at random: minutes of it in a long run, a few seconds in a short one. */
import { afterAll, describe, expect, type TestContext, test } from 'vitest';
import type { StoreKind } from '../support/fleet.ts';
import { skipWithout } from '../support/missing.ts';
import { missingRedis } from '../support/redis-server.ts';
import { runCampaign } from './campaign.ts';
import { createChance } from './chance.ts';
import { createFaultReport, LONG } from './report.ts';

const SECONDS = Number(process.env.CAMPAIGN_SECONDS ?? (LONG ? 600 : 8));
/** Of a long run: longer than a lease, twice over. */
const LONGEST_FAULT = Math.min(8_000, (SECONDS / 10) * 1_000);
/** Of the memory after the warm-up: less than this is what a process may have at the end. A short run ends before the heap has settled. */
const MEMORY_FACTOR = LONG ? 1.5 : 2;

const megabytes = (bytes: number) => `${Math.round(bytes / 2 ** 20)} MB`;

describe.each<StoreKind>(['SQLite', 'Redis'])('R38, R39, F1 to F22 at random on %s', (kind) => {
  const report = createFaultReport();
  const chance = createChance(process.env.CAMPAIGN_SEED);
  afterAll(() => report.print(`Campaign on ${kind}, seed ${chance.seed}`));

  test(`${SECONDS} s: nothing wrong is answered, nothing promised is lost, memory stays, and all recovers`, async (context: TestContext) => {
    skipWithout(context, kind === 'Redis' ? missingRedis : undefined);
    process.stdout.write(`Campaign on ${kind}: CAMPAIGN_SEED=${chance.seed}\n`);
    await report.run(`mixed load for ${SECONDS} s with these faults`, 1, async () => {
      const account = await runCampaign({
        ...{ kind, chance, seconds: SECONDS },
        ...(LONG
          ? {
              processes: 3,
              people: 30,
              warmUpSeconds: Math.min(60, SECONDS / 4),
              faultMilliseconds: [300, LONGEST_FAULT],
            }
          : { processes: 2, people: 12, warmUpSeconds: 2, faultMilliseconds: [100, 700] }),
      });
      const { journal, strikes, refreshes, losses, memory, wrongs } = account;
      for (const [fault, count] of strikes) report.add(fault, count, 'struck');
      for (const [what, { served, refused, cut }] of journal.tallies())
        report.add(`asked for: ${what}`, served + refused + cut, `${served} served, ${refused} refused, ${cut} cut`);
      expect(wrongs).toEqual([]);
      expect(memory.last).toBeLessThan(MEMORY_FACTOR * memory.warm);
      // A campaign in which nobody is ever served would show nothing.
      expect([...journal.tallies()].filter(([, { served }]) => served === 0)).toEqual([]);
      expect(refreshes).toBeGreaterThan(0);
      const told = `${losses} times told of a lost answer`;
      return `${journal.total()} requests, ${refreshes} refreshes, ${told}, memory from ${megabytes(memory.warm)} to ${megabytes(memory.last)}`;
    });
  });
});
