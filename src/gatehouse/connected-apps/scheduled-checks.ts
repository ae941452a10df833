/** The doctor on a schedule: checks each enabled app at an interval, and stores the last result. */
import { createFairPool } from '../../shared/fair-pool.ts';
import type { Events } from '../../shared/observability/events.ts';
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import { keys } from '../../shared/storage/keys.ts';
import type { ScheduledTask, TaskTurn } from '../../shared/storage/scheduled-task.ts';
import type { Store } from '../../shared/storage/store.ts';
import { DAY_SECONDS } from '../../shared/time.ts';
import type { AppCheck } from './check.ts';
import type { CurrentApps } from './current-apps.ts';
import { type CheckName, type Finding, problemsIn } from './finding.ts';

export interface LastCheck {
  /** Milliseconds since the epoch. */
  at: number;
  findings: Finding[];
}

export interface ScheduledChecks {
  /** The last result; undefined if the app has not been checked yet. */
  read(appId: string): Promise<LastCheck | undefined>;
  /** Checks an app now, and stores the result. */
  run(app: ConnectedApp): Promise<LastCheck>;
  forget(appId: string): Promise<unknown>;
  scheduledTasks: readonly ScheduledTask[];
}

/** An app is due after this fraction of the interval; the rest allows for delays. */
const DUE = 0.75;
/** Providers are not called for at most this long after a start. */
const MAX_FIRST_MS = 600_000;
const PAUSE_MS = { min: 1_000, max: 60_000 };
/** Apps checked at the same time. */
const PLACES = 4;
/** Longer than the longest interval. */
const RESULT_SECONDS = 60 * DAY_SECONDS;

/** @param parts `seconds`: the interval; 0 for none. `changedAt`: of the registration, in ms since the epoch */
export function createScheduledChecks(parts: {
  store: Store;
  apps: Pick<CurrentApps, 'list'>;
  check: AppCheck;
  changedAt: (appId: string) => Promise<number>;
  seconds: number;
  events: Pick<Events, 'appCheckChanged'> | undefined;
  clock: () => number;
}): ScheduledChecks {
  const { store, apps, check, changedAt, seconds, events, clock } = parts;
  const intervalMs = seconds * 1000;
  const firstAt = clock() + Math.min(MAX_FIRST_MS, intervalMs / 4);

  const read = async (appId: string): Promise<LastCheck | undefined> => {
    const stored = await store.get(keys.appCheck(appId));
    return stored && (JSON.parse(stored.value) as LastCheck);
  };

  const run = async (app: ConnectedApp): Promise<LastCheck> => {
    const last = { at: clock(), findings: await check.run(app) };
    await store.write([{ put: keys.appCheck(app.id), value: JSON.stringify(last), lifetimeSeconds: RESULT_SECONDS }]);
    return last;
  };

  /** Checks an app that is due, and announces a result that differs from the last one. */
  const runIfDue = async (app: ConnectedApp): Promise<void> => {
    const last = await read(app.id);
    const isFresh = last && clock() - last.at < intervalMs * DUE;
    if (isFresh && (await changedAt(app.id)) <= last.at) return;
    const problems = problemNames(await run(app));
    const before = problemNames(last);
    if (problems.join() === before.join()) return;
    events?.appCheckChanged({ app: app.id, name: app.name, problems });
  };

  const work = async (turn: TaskTurn): Promise<void> => {
    if (clock() < firstAt) return;
    const pool = createFairPool({ slots: PLACES, share: 1 });
    for (const app of apps.list().filter(({ disabled }) => !disabled)) {
      pool.add(app.id, async () => {
        // A shutdown waits for the scheduled task.
        if (!turn.isOver()) await runIfDue(app);
        return true;
      });
    }
    await pool.idle();
  };

  const everyMilliseconds = Math.max(PAUSE_MS.min, Math.min(PAUSE_MS.max, intervalMs / 8));
  const scheduledTasks: readonly ScheduledTask[] =
    seconds === 0 ? [] : [{ name: 'check-apps', everyMilliseconds, work }];

  return {
    read,
    run,
    forget: (appId) => store.write([{ delete: keys.appCheck(appId) }]),
    scheduledTasks,
  };
}

const problemNames = (last: LastCheck | undefined): CheckName[] =>
  problemsIn(last?.findings ?? []).map(({ check }) => check);
