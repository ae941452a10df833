/** Seals every record with the first key, started in the browser: one process does it, and another resumes it after a kill. */
import { z } from 'zod';
import { AppError } from '../../shared/errors.ts';
import type { Events } from '../../shared/observability/events.ts';
import { assertAllSealWith } from '../../shared/storage/key-roll-call.ts';
import { rotateKeys } from '../../shared/storage/key-rotation.ts';
import { keys } from '../../shared/storage/keys.ts';
import { createLeases } from '../../shared/storage/lease.ts';
import type { ScheduledTask } from '../../shared/storage/scheduled-task.ts';
import type { Sealer } from '../../shared/storage/sealed.ts';
import { countSealed, sumOf } from '../../shared/storage/sealed-records.ts';
import type { Storage } from '../../shared/storage/storage.ts';
import { updateRecord } from '../../shared/storage/update-record.ts';
import { DAY_SECONDS, isoTime } from '../../shared/time.ts';
import type { Audit } from '../audit/audit.ts';
import type { AuditEntry } from '../audit/kinds.ts';

export const rotationJson = z.object({
  kid: z.string().describe('the key that seals everything in the end'),
  startedAt: z.iso.datetime(),
  finishedAt: z.iso.datetime().nullable(),
  total: z.int().nullable().describe('records to seal again; null until they are counted'),
  done: z.int(),
  unreadable: z.record(z.string(), z.int()).describe('records that no key opens, by kind: they stay as they are'),
  droppable: z.array(z.string()).describe('keys that it replaced: remove them from ENCRYPTION_KEYS'),
  failure: z.string().nullable().describe('why it ended before everything was sealed'),
});

export type RotationProgress = z.output<typeof rotationJson>;

/** The administrator or the program that started it, for the audit trail. */
type StartedBy = Pick<AuditEntry, 'actor' | 'address' | 'requestId'>;

interface Job extends RotationProgress {
  by: StartedBy;
}

const LIFETIME_SECONDS = 30 * DAY_SECONDS;
const LEASE_MS = 15_000;
const SAVE_MS = 1_000;
const RESUME_MS = 5_000;

export interface KeyRotation {
  /** The key that a rotation would seal with. */
  kid(): string;
  /** Of the last rotation, for 30 days. */
  progress(): Promise<RotationProgress | undefined>;
  /** @throws AppError `version_conflict` if a process still seals with another key */
  assertReady(): Promise<void>;
  /** Starts a rotation, or returns the progress of the one that runs. */
  start(by: StartedBy): Promise<RotationProgress>;
  /** Takes up a rotation that a process left behind. */
  scheduledTasks: readonly ScheduledTask[];
  /** Stops after the records under way; the next process goes on. */
  close(): Promise<void>;
}

export function createKeyRotation(parts: {
  storage: Pick<Storage, 'store' | 'sealer'>;
  audit: Pick<Audit, 'trail'>;
  events: Pick<Events, 'keyRotationFailed'>;
  clock: () => number;
}): KeyRotation {
  const { storage, audit, events, clock } = parts;
  const { store } = storage;
  const leases = createLeases({ store, milliseconds: LEASE_MS });
  const underWay = new Set<Promise<unknown>>();
  let stopping = false;

  const load = async (): Promise<{ job: Job | undefined; version: number }> => {
    const stored = await store.get(keys.keyRotation);
    return { job: stored && (JSON.parse(stored.value) as Job), version: stored?.version ?? 0 };
  };
  /** Changes nothing if another process changes it at the same time: then that one works on it. */
  const update = async (change: (job: Job) => Partial<Job>): Promise<void> => {
    const { job, version: ifVersion } = await load();
    if (!job || !isOpen(job)) return;
    const [put, value] = [keys.keyRotation, JSON.stringify({ ...job, ...change(job) })];
    await store.write([{ put, value, lifetimeSeconds: LIFETIME_SECONDS, ifVersion }]);
  };

  const finish = async (result: Pick<Job, 'failure'> & Partial<Job>): Promise<void> => {
    await update((job) => ({ ...result, total: result.done ?? job.done, finishedAt: isoTime(clock()) }));
  };

  /** Saves the progress from time to time, and stops with the process. */
  const counter = (before: number) => {
    let done = before;
    let savedAt = clock();
    let saving: Promise<unknown> = Promise.resolve();
    return {
      advance(count: number) {
        if (stopping) throw new Stopped();
        done += count;
        if (clock() - savedAt < SAVE_MS) return;
        savedAt = clock();
        const now = done;
        saving = update(() => ({ done: now })).catch(() => undefined);
      },
      done: () => done,
      /** Resolves once no save is under way. */
      saved: () => saving,
    };
  };

  const seal = async (job: Job, sealer: Sealer): Promise<void> => {
    const kid = sealer.sealingKid;
    const counts = await countSealed(store, sealer);
    counts.delete(kid);
    const due = counts.values().reduce((sum, ofKid) => sum + sumOf(ofKid), 0);
    await update(({ done }) => ({ total: done + due }));
    const progress = counter(job.done);
    const assertAllUse = () => assertAllSealWith(store, kid);
    const result = await rotateKeys(store, sealer, progress.advance, assertAllUse);
    const unreadable = Object.fromEntries(result.unreadable);
    const resealed = progress.done() - sumOf(result.unreadable);
    await audit.trail.append({ event: 'key.rotated', ...job.by, facts: { kid, resealed } });
    // A save that is late would make the last one fail.
    await progress.saved();
    await finish({ done: progress.done(), unreadable, droppable: [...result.retired], failure: null });
  };

  const work = async (): Promise<void> => {
    const { job } = await load();
    if (!job || !isOpen(job)) return;
    const failed = (failure: string) => finish({ failure });
    // A reload may replace the keys meanwhile: the work goes on with these, and the roll call finds the others.
    const sealer = storage.sealer.current();
    const kid = sealer.sealingKid;
    if (job.kid !== kid) return failed(`The first key of ENCRYPTION_KEYS is now "${kid}": start again.`);
    try {
      await seal(job, sealer);
    } catch (error) {
      const code = error instanceof AppError ? error.code : undefined;
      // The next turn resumes it, here or in another process.
      if (error instanceof Stopped || code === 'storage_unavailable') return;
      const refusal = code === 'version_conflict' ? (error as AppError).detail : undefined;
      if (!refusal) events.keyRotationFailed({ cause: error });
      await failed(refusal || UNEXPECTED);
    }
  };

  const run = (): void => {
    const turn = leases.hold(keys.keyRotationLease, work).catch(() => undefined);
    underWay.add(turn);
    void turn.finally(() => underWay.delete(turn));
  };

  return {
    kid: () => storage.sealer.sealingKid,
    progress: async () => (await load()).job,
    assertReady: () => assertAllSealWith(store, storage.sealer.sealingKid),

    async start(by) {
      const begin = (job: Job | undefined): Job => {
        const kid = storage.sealer.sealingKid;
        return job && isOpen(job) && job.kid === kid ? job : { ...FRESH, kid, startedAt: isoTime(clock()), by };
      };
      const { after } = await updateRecord(store, keys.keyRotation, begin, { lifetimeSeconds: LIFETIME_SECONDS });
      run();
      return after;
    },

    scheduledTasks: [
      {
        name: 'key-rotation',
        everyMilliseconds: RESUME_MS,
        async isDue() {
          const { job } = await load();
          return job !== undefined && isOpen(job);
        },
        // Not waited for: a scheduled task that lasts would hold up the end of the process.
        work: async () => run(),
      },
    ],

    async close() {
      stopping = true;
      await Promise.all(underWay);
    },
  };
}

const FRESH = { finishedAt: null, total: null, done: 0, unreadable: {}, droppable: [], failure: null };

const isOpen = ({ finishedAt }: Job) => finishedAt === null;

const UNEXPECTED =
  'An unexpected error ended it; the log has its cause. To go on, run this command: npm run gatehouse -- keys rotate';

/** The process ends. */
class Stopped extends Error {}
