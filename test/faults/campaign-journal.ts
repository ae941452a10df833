/** The journal of a campaign: requests, outcomes, violations, and the times in which a cut connection is excused. */

export interface Journal {
  /** Records the outcome of a request. */
  count(kind: string, outcome: Outcome): void;
  /** Records something that must never happen. */
  addViolation(violation: string): void;
  readonly violations: readonly string[];
  /**
   * Records the start of a fault. @returns records its end
   * @param cuts requests that it may cut without a response
   */
  beginFault(fault: string, cuts?: Excused | undefined): () => void;
  /** Whether a fault may have cut a request of this kind that started at this time. */
  isExcused(kind: string, requestedAt: number): boolean;
  /** The number of requests of each kind by outcome. */
  tallies(): ReadonlyMap<string, Readonly<Record<Outcome, number>>>;
  total(outcome?: Outcome): number;
}

/** `refused`: with an error response; `cut`: without a response. */
export type Outcome = 'served' | 'refused' | 'cut';

/** Threads are streamed, so a response that the platform truncates must be cut for the caller, too. */
export type Excused = 'all' | 'threads';

/** One is enough to fail, and the first are the most useful. */
const MAX_VIOLATIONS = 30;
/** Time for requests that were in flight when the fault ended. */
const AFTER_MILLISECONDS = 1_000;

export function createJournal(): Journal {
  const tallies = new Map<string, Record<Outcome, number>>();
  const violations: string[] = [];
  const startedAt = performance.now();
  const faults: { name: string; cuts: Excused | undefined; until: number }[] = [];
  const recentFaults = () => faults.filter(({ until }) => until + 3 * AFTER_MILLISECONDS >= performance.now());
  return {
    count(kind, outcome) {
      const tally = tallies.get(kind) ?? { served: 0, refused: 0, cut: 0 };
      tally[outcome] += 1;
      tallies.set(kind, tally);
    },
    addViolation(violation) {
      if (violations.length >= MAX_VIOLATIONS) return;
      const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1);
      const faultNames = recentFaults().map(({ name, until }) =>
        until === Number.POSITIVE_INFINITY ? name : `just after ${name}`,
      );
      violations.push(`${seconds} s: ${violation} (${faultNames.join('; ')})`);
    },
    violations,
    beginFault(name, cuts) {
      const fault = { name, cuts, until: Number.POSITIVE_INFINITY };
      faults.push(fault);
      return () => {
        fault.until = performance.now();
      };
    },
    isExcused: (kind, requestedAt) =>
      faults.some(({ cuts, until }) => {
        const wasCut = cuts === 'all' || (cuts === 'threads' && kind.endsWith('thread'));
        return wasCut && requestedAt <= until + AFTER_MILLISECONDS;
      }),
    tallies: () => tallies,
    total(outcome) {
      let total = 0;
      for (const tally of tallies.values())
        total += outcome ? tally[outcome] : tally.served + tally.refused + tally.cut;
      return total;
    },
  };
}
