/** Owns the entries that nobody waits for: queued, kept in order, tried again while the storage is down, and bounded. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { AuditEntry } from './kinds.ts';
import type { AuditTrail } from './trail.ts';

export interface AuditNotes {
  /** Hands an entry over. Never throws, and nothing waits for it: for what happened, not for what must not happen unrecorded. */
  note(entry: AuditEntry): void;
  /** Resolves once everything is kept, or nothing more can be within a few seconds. */
  settle(): Promise<void>;
}

export interface AuditNotesParts {
  trail: Pick<AuditTrail, 'append'>;
  clock: () => number;
  /** Entries that could not be kept. */
  lost: (count: number) => void;
}

/** What comes within this time is written together: one sign-in alone tells several things. */
const GATHER_MILLISECONDS = 20;
const MOST_WAITING = 5_000;
const AT_ONCE = 50;
const RETRY_MILLISECONDS = 500;
const SETTLE_MILLISECONDS = 3_000;
/** What people who are not signed in can make us keep (R54): entries a minute, by each process. */
const ANONYMOUS_A_MINUTE = 60;
const MINUTE_MILLISECONDS = 60_000;

export function createAuditNotes({ trail, clock, lost }: AuditNotesParts): AuditNotes {
  const waiting: { entry: AuditEntry; at: number }[] = [];
  const admit = anonymousGate(clock);
  let worker: Promise<void> | undefined;
  let gathering: NodeJS.Timeout | undefined;
  let closing = false;

  const keepAll = async (): Promise<void> => {
    while (waiting.length > 0) {
      const batch = waiting.splice(0, AT_ONCE);
      const kept = await Promise.allSettled(batch.map(({ entry, at }) => trail.append(entry, at)));
      const again = batch.filter((_one, place) => kept[place]?.status === 'rejected');
      if (again.length === 0) continue;
      waiting.unshift(...again);
      if (closing) return;
      await sleep(RETRY_MILLISECONDS);
    }
  };

  const work = (): void => {
    gathering = undefined;
    worker ??= keepAll().finally(() => {
      worker = undefined;
      if (waiting.length > 0 && !closing) work();
    });
  };

  return {
    note(entry) {
      const admitted = admit(entry);
      if (!admitted) return;
      if (waiting.length >= MOST_WAITING) return lost(1);
      waiting.push({ entry: admitted, at: clock() });
      if (closing) work();
      else gathering ??= setTimeout(work, GATHER_MILLISECONDS);
    },
    async settle() {
      closing = true;
      clearTimeout(gathering);
      work();
      await Promise.race([worker, sleep(SETTLE_MILLISECONDS, undefined, { ref: false })]);
      if (waiting.length > 0) lost(waiting.length);
    },
  };
}

/** Lets so many of the anonymous pass each minute; the first of the next minute tells how many more there were. */
function anonymousGate(clock: () => number): (entry: AuditEntry) => AuditEntry | undefined {
  let minute = 0;
  let passed = 0;
  let held = 0;
  return (entry) => {
    if (entry.actor.kind !== 'anonymous') return entry;
    const now = Math.floor(clock() / MINUTE_MILLISECONDS);
    if (now !== minute) [minute, passed] = [now, 0];
    passed += 1;
    if (passed > ANONYMOUS_A_MINUTE) {
      held += 1;
      return undefined;
    }
    const facts = held === 0 ? entry.facts : { ...entry.facts, moreLikeIt: held };
    held = 0;
    return { ...entry, facts };
  };
}
