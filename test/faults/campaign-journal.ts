/** The journal of a campaign: requests, responses, violations, and when a cut connection is excused. */

export interface Journal {
  /** A person asked for something, and this came of it. */
  note(what: string, outcome: Outcome): void;
  /** Something that must never happen. */
  wrong(what: string): void;
  readonly wrongs: readonly string[];
  /**
   * Something is broken from now on, until what is returned is called.
   * @param cuts requests that may be cut without an answer meanwhile
   */
  breaks(fault: string, cuts?: Excused | undefined): () => void;
  /** Whether a request for this, made then, may have been cut. */
  isExcused(what: string, since: number): boolean;
  /** `what` to how often it was asked, served, refused and cut. */
  tallies(): ReadonlyMap<string, Readonly<Record<Outcome, number>>>;
  total(outcome?: Outcome): number;
}

/** `refused`: with an answer that says so; `cut`: without an answer. */
export type Outcome = 'served' | 'refused' | 'cut';

/** Threads are streamed: where the platform breaks off amid one, so must we. */
export type Excused = 'all' | 'threads';

/** One is enough to fail, and the first ones tell the most. */
const MOST_WRONGS = 30;
/** What was on its way when the fault ended. */
const AFTER_MILLISECONDS = 1_000;

export function createJournal(): Journal {
  const tallies = new Map<string, Record<Outcome, number>>();
  const wrongs: string[] = [];
  const startedAt = performance.now();
  const faults: { name: string; cuts: Excused | undefined; until: number }[] = [];
  const lately = () => faults.filter(({ until }) => until + 3 * AFTER_MILLISECONDS >= performance.now());
  return {
    note(what, outcome) {
      const tally = tallies.get(what) ?? { served: 0, refused: 0, cut: 0 };
      tally[outcome] += 1;
      tallies.set(what, tally);
    },
    wrong(what) {
      const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1);
      const amid = lately().map(({ name, until }) =>
        until === Number.POSITIVE_INFINITY ? name : `just after ${name}`,
      );
      if (wrongs.length < MOST_WRONGS) wrongs.push(`${seconds} s: ${what} (${amid.join('; ')})`);
    },
    wrongs,
    breaks(name, cuts) {
      const fault = { name, cuts, until: Number.POSITIVE_INFINITY };
      faults.push(fault);
      return () => {
        fault.until = performance.now();
      };
    },
    isExcused: (what, since) =>
      faults.some(
        ({ cuts, until }) =>
          since <= until + AFTER_MILLISECONDS && (cuts === 'all' || (cuts && what.endsWith('thread'))),
      ),
    tallies: () => tallies,
    total: (outcome) =>
      [...tallies.values()].reduce(
        (sum, tally) => sum + (outcome ? tally[outcome] : tally.served + tally.refused + tally.cut),
        0,
      ),
  };
}
