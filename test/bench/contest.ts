/** Runs each contestant under the same load, in turn and in rounds, so that other work affects all alike. */
import type { Effort } from './effort.ts';
import { load, type Questions } from './load.ts';
import type { Measured } from './process.ts';
import { type Figures, type Summary, summary } from './table.ts';

export interface Contestant {
  name: string;
  questions: Questions;
  /** The server's processes; their CPU time and memory count together. */
  processes: readonly Measured[];
  /** As many times the connections of the contest; default 1. */
  share?: number;
}

const WARM_UP_SECONDS = 1;

/** The first contestant is what the others are measured by. */
export async function contest<T extends Contestant>(
  contestants: readonly T[],
  connections: number,
  { seconds, runs }: Effort,
): Promise<Summary[]> {
  const rounds = new Map<T, Figures[]>(contestants.map((one) => [one, []]));
  for (const one of contestants) await measure(one, connections, WARM_UP_SECONDS);
  for (let round = 0; round < runs; round++) {
    for (const one of contestants) rounds.get(one)?.push(await measure(one, connections, seconds));
  }
  const [first] = contestants;
  const limit = (first && rounds.get(first)) ?? [];
  return contestants.map((one) => summary({ name: one.name, connections }, rounds.get(one) ?? [], limit));
}

async function measure(
  { name, questions, processes, share = 1 }: Contestant,
  connections: number,
  seconds: number,
): Promise<Figures> {
  const total = (read: (one: Measured) => number) => processes.reduce((sum, one) => sum + read(one), 0);
  const before = total((one) => one.cpuSeconds());
  const loaded = await load(questions, { connections: connections * share, seconds }).catch((error: Error) => {
    throw new Error(`${name}: ${error.message}`);
  });
  const cpuSeconds = total((one) => one.cpuSeconds()) - before;
  return {
    requestsPerSecond: loaded.requests / loaded.seconds,
    p50: loaded.p50,
    p99: loaded.p99,
    cpuPer1000: (cpuSeconds / loaded.requests) * 1000,
    memory: total((one) => one.memory()),
  };
}
