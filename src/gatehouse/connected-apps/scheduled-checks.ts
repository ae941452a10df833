/** The doctor on a schedule: checks each enabled app at an interval, and stores the last result. */
import { setTimeout as sleep } from 'node:timers/promises';
import { createFairPool } from '../../shared/fair-pool.ts';
import type { Events } from '../../shared/observability/events.ts';
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import { hashOf, keys } from '../../shared/storage/keys.ts';
import type { ScheduledTask, TaskTurn } from '../../shared/storage/scheduled-task.ts';
import type { Store } from '../../shared/storage/store.ts';
import { DAY_SECONDS } from '../../shared/time.ts';
import type { AppCheck } from './check.ts';
import type { CurrentApps } from './current-apps.ts';
import { type CheckName, type Finding, problemsIn } from './finding.ts';

export interface LastCheck {
  /** Milliseconds since the epoch. */
  at: number;
  /** Identifies the registration that was checked. */
  registration?: string;
  findings: Finding[];
}

export interface ScheduledChecks {
  /** The last result; undefined if the app has not been checked yet. */
  read(appId: string): Promise<LastCheck | undefined>;
  /** Checks an app now, and stores the result. */
  run(app: ConnectedApp): Promise<LastCheck>;
  /** Checks an app in the background, if it has changed since the last check. */
  start(app: ConnectedApp): void;
  /** Waits for the check that was started, but not longer than an administrator would for a page. */
  whenChecked(appId: string): Promise<void>;
  /** Returns true if the app has changed since its check. @param changedAt undefined for an app of the file */
  isOutdated(appId: string, lastCheck: LastCheck, changedAt: number | undefined): boolean;
  forget(appId: string): Promise<unknown>;
  scheduledTasks: readonly ScheduledTask[];
}

/** An app is due after this fraction of the interval; the rest allows for delays. */
const DUE_FRACTION = 0.75;
/** After a start, providers are not called for a part of the interval, at most this long. */
const MAX_START_DELAY_MS = 600_000;
const PAUSE_MS = { min: 1_000, max: 60_000 };
const MAX_WAIT_MS = 2_000;
/** The number of apps that are checked at the same time. */
const MAX_CONCURRENT = 4;
/** Longer than the longest interval. */
const RESULT_SECONDS = 60 * DAY_SECONDS;

/**
 * @param parts `seconds`: the interval; 0 for none. `changedAt`: time of the last change of an app, in ms; undefined for
 *   an app of the file
 */
export function createScheduledChecks(parts: {
  store: Store;
  apps: Pick<CurrentApps, 'list' | 'find'>;
  check: AppCheck;
  changedAt: (appId: string) => Promise<number | undefined>;
  seconds: number;
  events: Pick<Events, 'appCheckChanged'> | undefined;
  clock: () => number;
}): ScheduledChecks {
  const { store, apps, check, changedAt, seconds, events, clock } = parts;
  const intervalMs = seconds * 1000;
  const firstAt = clock() + Math.min(MAX_START_DELAY_MS, intervalMs / 4);

  const read = async (appId: string): Promise<LastCheck | undefined> => {
    const stored = await store.get(keys.appCheck(appId));
    return stored && (JSON.parse(stored.value) as LastCheck);
  };

  const run = async (app: ConnectedApp): Promise<LastCheck> => {
    const lastCheck = { at: clock(), registration: digestOf(app), findings: await check.run(app) };
    await store.write([
      { put: keys.appCheck(app.id), value: JSON.stringify(lastCheck), lifetimeSeconds: RESULT_SECONDS },
    ]);
    return lastCheck;
  };

  const isOutdated: ScheduledChecks['isOutdated'] = (appId, { at, registration }, changeTime) => {
    if (changeTime !== undefined) return changeTime > at;
    const app = apps.find(appId);
    return app !== undefined && registration !== digestOf(app);
  };

  /** Checks an app that is due, and announces a result that differs from the last one. */
  const runIfDue = async (app: ConnectedApp): Promise<void> => {
    const lastCheck = await read(app.id);
    const isFresh = lastCheck && clock() - lastCheck.at < intervalMs * DUE_FRACTION;
    if (isFresh && !isOutdated(app.id, lastCheck, await changedAt(app.id))) return;
    const problems = problemNames(await run(app));
    const earlierProblems = problemNames(lastCheck);
    if (problems.join() === earlierProblems.join()) return;
    events?.appCheckChanged({ app: app.id, name: app.name, problems });
  };

  const work = async (turn: TaskTurn): Promise<void> => {
    if (clock() < firstAt) return;
    const pool = createFairPool({ slots: MAX_CONCURRENT, share: 1 });
    for (const app of apps.list().filter(({ disabled }) => !disabled)) {
      pool.add(app.id, async () => {
        // A shutdown waits for the scheduled task.
        if (!turn.isOver()) await runIfDue(app);
        return true;
      });
    }
    await pool.idle();
  };

  /** The checks that are running after a change, by app. */
  const started = new Map<string, Promise<void>>();
  const waiting = new Map<string, ConnectedApp>();

  /** Checks an app once more if it was changed meanwhile: side by side, the result of an earlier form could come last. */
  const runWaiting = async (appId: string): Promise<void> => {
    for (let app = waiting.get(appId); app; app = waiting.get(appId)) {
      waiting.delete(appId);
      // If it fails, the schedule repeats it. Until then pages say that the app has changed since.
      await runIfDue(app).catch(() => undefined);
    }
    started.delete(appId);
  };

  const everyMilliseconds = Math.max(PAUSE_MS.min, Math.min(PAUSE_MS.max, intervalMs / 8));
  const scheduledTasks: readonly ScheduledTask[] =
    seconds === 0 ? [] : [{ name: 'check-apps', everyMilliseconds, work }];

  return {
    read,
    run,
    isOutdated,
    start(app) {
      waiting.set(app.id, app);
      if (!started.has(app.id)) started.set(app.id, runWaiting(app.id));
    },
    async whenChecked(appId) {
      await Promise.race([started.get(appId), sleep(MAX_WAIT_MS, undefined, { ref: false })]);
    },
    forget: (appId) => store.write([{ delete: keys.appCheck(appId) }]),
    scheduledTasks,
  };
}

/** Without the secret, which must not be guessed from the storage. */
const digestOf = ({ clientSecret: _, ...registration }: ConnectedApp): string => hashOf(JSON.stringify(registration));

const problemNames = (lastCheck: LastCheck | undefined): CheckName[] =>
  problemsIn(lastCheck?.findings ?? []).map(({ check }) => check);
