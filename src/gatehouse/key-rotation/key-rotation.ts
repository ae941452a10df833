/**
 * Seals every record with the first key, in the background. One process does the work; if it is killed, another one
 * resumes it.
 */
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
  kid: z.string().describe('the key that the rotation seals all records with'),
  startedAt: z.iso.datetime(),
  finishedAt: z.iso.datetime().nullable(),
  total: z.int().nullable().describe('records to seal again; null until they are counted'),
  done: z.int(),
  unreadable: z.record(z.string(), z.int()).describe('records that no key opens, by kind: they are not changed'),
  removable: z.array(z.string()).describe('replaced keys: remove them from ENCRYPTION_KEYS'),
  failure: z.string().nullable().describe('why it ended before all records were sealed'),
});

export type RotationProgress = z.output<typeof rotationJson>;

/** The administrator or the program that started the rotation, for the audit trail. */
type StartedBy = Pick<AuditEntry, 'actor' | 'address' | 'requestId'>;

interface Job extends RotationProgress {
  by: StartedBy;
}

const LIFETIME_SECONDS = 30 * DAY_SECONDS;
const LEASE_MS = 15_000;
const SAVE_MS = 1_000;
const RESUME_MS = 5_000;

export interface KeyRotation {
  /** Returns the id of the key that a rotation would seal with. */
  kid(): string;
  /** Returns the progress of the last rotation, for 30 days after its last change. */
  progress(): Promise<RotationProgress | undefined>;
  /** Checks that a rotation can start. @throws AppError `version_conflict` if a process still seals with another key */
  assertReady(): Promise<void>;
  /** Starts a rotation, or returns the progress of the running one. */
  start(by: StartedBy): Promise<RotationProgress>;
  /** A task that resumes the rotation of a process that ended. */
  scheduledTasks: readonly ScheduledTask[];
  /** Stops once the records in progress are sealed; another process resumes the rotation. */
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
  const inFlight = new Set<Promise<unknown>>();
  let isStopping = false;

  const load = async (): Promise<{ job: Job | undefined; version: number }> => {
    const stored = await store.get(keys.keyRotation);
    return { job: stored && (JSON.parse(stored.value) as Job), version: stored?.version ?? 0 };
  };
  /** Updates the job, unless another process updates it at the same time: then that process works on it. */
  const update = async (change: (job: Job) => Partial<Job>): Promise<void> => {
    const { job, version: ifVersion } = await load();
    if (!job || !isOpen(job)) return;
    const [put, value] = [keys.keyRotation, JSON.stringify({ ...job, ...change(job) })];
    await store.write([{ put, value, lifetimeSeconds: LIFETIME_SECONDS, ifVersion }]);
  };

  const finish = async (result: Pick<Job, 'failure'> & Partial<Job>): Promise<void> => {
    await update((job) => ({ ...result, total: result.done ?? job.done, finishedAt: isoTime(clock()) }));
  };

  /** Counts the progress, saves it at most once a second, and stops the work when the process ends. */
  const counter = (initialCount: number) => {
    let done = initialCount;
    let savedAt = clock();
    let saving: Promise<unknown> = Promise.resolve();
    return {
      advance(count: number) {
        if (isStopping) throw new Stopped();
        done += count;
        if (clock() - savedAt < SAVE_MS) return;
        savedAt = clock();
        const current = done;
        saving = update(() => ({ done: current })).catch(() => undefined);
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
    const remaining = counts.values().reduce((sum, ofKid) => sum + sumOf(ofKid), 0);
    await update(({ done }) => ({ total: done + remaining }));
    const progress = counter(job.done);
    const assertAllSeal = () => assertAllSealWith(store, kid);
    const result = await rotateKeys(store, sealer, progress.advance, assertAllSeal);
    const unreadable = Object.fromEntries(result.unreadable);
    const reencrypted = progress.done() - sumOf(result.unreadable);
    await audit.trail.append({ event: 'encryption_key.rotated', ...job.by, facts: { kid, reencrypted } });
    // If the progress were saved at the same time, the last save would fail.
    await progress.saved();
    await finish({ done: progress.done(), unreadable, removable: [...result.retired], failure: null });
  };

  const work = async (): Promise<void> => {
    const { job } = await load();
    if (!job || !isOpen(job)) return;
    const fail = (failure: string) => finish({ failure });
    // A reload may replace the keys in the meantime: the work continues with these keys, and the roll call finds the
    // new ones.
    const sealer = storage.sealer.current();
    const kid = sealer.sealingKid;
    if (job.kid !== kid) return fail(`The first key of ENCRYPTION_KEYS is now "${kid}": start the rotation again.`);
    try {
      await seal(job, sealer);
    } catch (error) {
      const code = error instanceof AppError ? error.code : undefined;
      // The next run of the scheduled task resumes the rotation, here or in another process.
      if (error instanceof Stopped || code === 'storage_unavailable') return;
      const refusal = code === 'version_conflict' ? (error as AppError).detail : undefined;
      if (!refusal) events.keyRotationFailed({ cause: error });
      await fail(refusal || UNEXPECTED);
    }
  };

  const run = (): void => {
    const running = leases.hold(keys.keyRotationLease, work).catch(() => undefined);
    inFlight.add(running);
    void running.finally(() => inFlight.delete(running));
  };

  return {
    kid: () => storage.sealer.sealingKid,
    progress: async () => (await load()).job,
    assertReady: () => assertAllSealWith(store, storage.sealer.sealingKid),

    async start(by) {
      const begin = (job: Job | undefined): Job => {
        const kid = storage.sealer.sealingKid;
        return job && isOpen(job) && job.kid === kid ? job : { ...NEW_JOB, kid, startedAt: isoTime(clock()), by };
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
        // Not awaited: a long scheduled task would delay the end of the process.
        work: async () => run(),
      },
    ],

    async close() {
      isStopping = true;
      await Promise.all(inFlight);
    },
  };
}

const NEW_JOB = { finishedAt: null, total: null, done: 0, unreadable: {}, removable: [], failure: null };

const isOpen = ({ finishedAt }: Job) => finishedAt === null;

const UNEXPECTED =
  'The rotation ended with an unexpected error; the log has the cause. To continue, run: npm run gatehouse -- keys rotate';

/** Thrown when the process ends. */
class Stopped extends Error {}
