/** Runs each contestant under the same load, in turn and in rounds, so that other work affects all of them equally. */
import type { Effort } from './effort.ts';
import { load, type NextRequest } from './load.ts';
import type { Measured } from './process.ts';
import { type Figures, type Summary, summary } from './table.ts';

export interface Contestant {
  name: string;
  nextRequest: NextRequest;
  /** The processes of the server, whose CPU time and memory are added. */
  processes: readonly Measured[];
  /** Factor of the number of connections. Default 1. */
  share?: number;
}

const WARM_UP_SECONDS = 1;

/** The first contestant is the reference for the others. */
export async function contest<T extends Contestant>(
  contestants: readonly T[],
  connections: number,
  { seconds, runs }: Effort,
): Promise<Summary[]> {
  const rounds = new Map<T, Figures[]>(contestants.map((contestant) => [contestant, []]));
  for (const contestant of contestants) await measure(contestant, connections, WARM_UP_SECONDS);
  for (let round = 0; round < runs; round++) {
    for (const contestant of contestants) rounds.get(contestant)?.push(await measure(contestant, connections, seconds));
  }
  const [reference] = contestants;
  const roundsOfReference = (reference && rounds.get(reference)) ?? [];
  return contestants.map((contestant) =>
    summary({ name: contestant.name, connections }, rounds.get(contestant) ?? [], roundsOfReference),
  );
}

async function measure(
  { name, nextRequest, processes, share = 1 }: Contestant,
  connections: number,
  seconds: number,
): Promise<Figures> {
  const total = (read: (process: Measured) => number) => processes.reduce((sum, process) => sum + read(process), 0);
  const cpuSecondsBefore = total((process) => process.cpuSeconds());
  const loaded = await load(nextRequest, { connections: connections * share, seconds }).catch((error: Error) => {
    throw new Error(`${name}: ${error.message}`);
  });
  const cpuSeconds = total((process) => process.cpuSeconds()) - cpuSecondsBefore;
  return {
    requestsPerSecond: loaded.requests / loaded.seconds,
    p50: loaded.p50,
    p99: loaded.p99,
    cpuPer1000: (cpuSeconds / loaded.requests) * 1000,
    memory: total((process) => process.memory()),
  };
}
