/** The process that loads the stored data set and measures time, memory, single and bulk lookups. Prints JSON. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createBins } from '../../src/gatehouse/bin/bin.ts';
import { type Bin, parseBin } from '../../src/shared/bin/parse-bin.ts';
import { createSqliteStore } from '../../src/shared/storage/sqlite/store.ts';

const [directory = '', first = '', rows = ''] = process.argv.slice(2);
setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');
const store = await createSqliteStore({ directory });
const outbound = { fetch: () => Promise.reject(new Error()) };
const parts = { store, outbound, clock: Date.now, service: undefined, file: undefined };
// The built-in data set and the country facts are always loaded, so they are not measured.
const empty = await createBins({ ...parts, store: { ...store, get: async () => undefined } });
collectGarbage();
const memoryBefore = process.memoryUsage();
const startedAt = performance.now();
const bins = await createBins(parts);
const loadMilliseconds = performance.now() - startedAt;
collectGarbage();
const memoryAfter = process.memoryUsage();
const dataset = bins.dataset.current();
if (dataset?.size !== Number(rows)) throw new Error('The data set was not loaded.');

const numbers = Array.from({ length: 100_000 }, (_, index) => {
  const { bin } = parseBin(String((Number(first) + ((index * 61_803_399) % Number(rows))) * 100));
  return bin as Bin;
});
const lookUpMicroseconds = await bestMicroseconds(10, async () => {
  for (const number of numbers) if (!dataset.find(number)) throw new Error('A lookup found nothing.');
});
const requests = Array.from({ length: 100 }, (_, index) => numbers.slice(index * 1_000, (index + 1) * 1_000));
const bulkMicroseconds = await bestMicroseconds(10, async () => {
  for (const request of requests) await bins.lookup.lookUpMany(request, { kind: 'operator' });
});
const figures = { loadMilliseconds, megabytes: (memoryAfter.rss - memoryBefore.rss) / 1e6, lookUpMicroseconds };
process.stdout.write(`${JSON.stringify({ ...figures, bulkPerSecond: 1e6 / bulkMicroseconds })}\n`);
await Promise.all([bins.close(), empty.close()]);
await store.close();

/** Processor microseconds per number, in the best of several rounds, which other work on the machine affects least. */
async function bestMicroseconds(times: number, work: () => Promise<void>): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let round = 0; round < times; round++) {
    const cpuBefore = process.cpuUsage();
    await work();
    const { user, system } = process.cpuUsage(cpuBefore);
    least = Math.min(least, (user + system) / numbers.length);
  }
  return least;
}
