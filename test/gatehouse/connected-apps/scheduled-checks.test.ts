/** The doctor on a schedule: when an app is checked, how long a result is stored, and which results are announced. */
import { beforeEach, describe, expect, test } from 'vitest';
import type { Finding } from '../../../src/gatehouse/connected-apps/finding.ts';
import { createScheduledChecks } from '../../../src/gatehouse/connected-apps/scheduled-checks.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { ENDLESS_TURN } from '../../support/task-turn.ts';
import { until } from '../../support/until.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const START = 1_800_000_000_000;

let now: number;
let checkedIds: string[];
let announced: unknown[];
let problems: Finding['check'][];
let changedAt: number | undefined;
let apps: ConnectedApp[];
let hangingCheck: Promise<void>;
let stored: Map<string, { value: string; lifetimeSeconds: number }>;
beforeEach(() => {
  now = START;
  checkedIds = [];
  announced = [];
  problems = [];
  changedAt = 0;
  apps = [appOf('a')];
  stored = new Map();
});

const appOf = (id: string, changes: object = {}) => ({ id, name: `App ${id}`, ...changes }) as ConnectedApp;
const currentFindings = (): Finding[] => [
  { check: 'tls', result: 'passed', detail: 'Protected.' },
  { check: 'clock', result: 'unknown', detail: 'No date.' },
  ...problems.map((check): Finding => ({ check, result: 'failed', detail: 'Wrong.' })),
];

function createChecks(seconds = 86_400) {
  const store = {
    get: async (key: string) => stored.get(key),
    async write([write]: readonly { put?: string; delete?: string; value: string; lifetimeSeconds: number }[]) {
      if (write?.put) stored.set(write.put, write);
      if (write?.delete) stored.delete(write.delete);
      return 1;
    },
  } as unknown as Store;
  return createScheduledChecks({
    store,
    apps: { list: () => apps, find: (id) => apps.find((app) => app.id === id) },
    check: {
      async run({ id }) {
        checkedIds.push(id);
        if (id === 'hanging') await hangingCheck;
        return currentFindings();
      },
    },
    changedAt: async () => changedAt,
    seconds,
    events: { appCheckChanged: (facts) => void announced.push(facts) },
    clock: () => now,
  });
}
const runTask = (checks: ReturnType<typeof createChecks>) => checks.scheduledTasks[0]?.work(ENDLESS_TURN);

describe('the task', () => {
  test.each([
    [86_400, MINUTE],
    [240, 30_000],
    [4, 1_000],
  ])('with an interval of %i s runs every %i ms', (seconds, everyMilliseconds) => {
    expect(createChecks(seconds).scheduledTasks).toMatchObject([{ name: 'check-apps', everyMilliseconds }]);
  });

  test('does not exist with an interval of 0 s', () => expect(createChecks(0).scheduledTasks).toEqual([]));

  test.each([
    [86_400, 10 * MINUTE],
    [240, MINUTE],
  ])('with an interval of %i s calls no provider for %i ms after a start', async (seconds, milliseconds) => {
    const checks = createChecks(seconds);
    now += milliseconds - 1;
    await runTask(checks);
    expect(checkedIds).toEqual([]);
    now += 1;
    await runTask(checks);
    expect(checkedIds).toEqual(['a']);
  });
});

test('R132 a provider that hangs does not delay the checks of other apps', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  hangingCheck = promise;
  apps = ['hanging', 'a', 'b', 'c', 'd', 'e'].map((id) => appOf(id));
  const checks = createChecks();
  now += HOUR;
  const taskRun = runTask(checks);
  await until(() => stored.size === 5);
  resolve();
  await taskRun;
  expect(stored.size).toBe(6);
});

describe('after a change', () => {
  test('an app is checked at once, also without a schedule, and a change of the result is announced', async () => {
    const checks = createChecks(0);
    problems = ['issuer'];
    checks.start(appOf('a'));
    await checks.whenChecked('a');
    expect((await checks.read('a'))?.findings).toEqual(currentFindings());
    expect(announced).toEqual([{ app: 'a', name: 'App a', problems: ['issuer'] }]);
  });

  test('changes during a check lead to one more check, of the last of them', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    hangingCheck = promise;
    const checks = createChecks(0);
    const hanging = (issuer: string) => appOf('hanging', { issuer });
    for (const issuer of ['https://one.test', 'https://two.test', 'https://three.test']) checks.start(hanging(issuer));
    await until(() => checkedIds.length > 0);
    resolve();
    await checks.whenChecked('hanging');
    expect(checkedIds).toEqual(['hanging', 'hanging']);
    apps = [hanging('https://three.test')];
    const lastCheck = await checks.read('hanging');
    expect(lastCheck && checks.isOutdated('hanging', lastCheck, undefined)).toBe(false);
    checks.start(hanging('https://four.test'));
    await checks.whenChecked('hanging');
    expect(checkedIds).toHaveLength(3);
  });

  test('nothing waits for an app that is not being checked', () => createChecks().whenChecked('a'));

  test('an earlier check is outdated', async () => {
    const checks = createChecks();
    const check = await checks.run(appOf('a'));
    expect([now - 1, now, now + 1].map((time) => checks.isOutdated('a', check, time))).toEqual([false, false, true]);
  });

  test('an app of the file, which has no time of its change, is checked again', async () => {
    changedAt = undefined;
    const checks = createChecks();
    now += HOUR;
    await runTask(checks);
    await runTask(checks);
    expect(checkedIds).toEqual(['a']);
    const isOutdated = async () => checks.isOutdated('a', (await checks.read('a')) as never, undefined);
    expect(await isOutdated()).toBe(false);
    apps = [appOf('a', { issuer: 'https://other.test' })];
    expect(await isOutdated()).toBe(true);
    await runTask(checks);
    expect([checkedIds, await isOutdated()]).toEqual([['a', 'a'], false]);
    expect(JSON.stringify([...stored.values()])).not.toContain('other.test');
  });
});

describe('an app', () => {
  /** Creates the checks and runs them for the first time. */
  async function createChecksAfterFirst() {
    const checks = createChecks();
    now += HOUR;
    await runTask(checks);
    checkedIds = [];
    return checks;
  }

  test('is due again after three quarters of the interval', async () => {
    const checks = await createChecksAfterFirst();
    now += 0.75 * DAY - 1;
    await runTask(checks);
    expect(checkedIds).toEqual([]);
    now += 1;
    await runTask(checks);
    expect(checkedIds).toEqual(['a']);
  });

  test('is due at once if it was changed after the last check', async () => {
    const checks = await createChecksAfterFirst();
    changedAt = now;
    now += MINUTE;
    await runTask(checks);
    expect(checkedIds).toEqual([]);
    changedAt = now;
    await runTask(checks);
    expect(checkedIds).toEqual(['a']);
  });

  test('is not checked while it is disabled', async () => {
    apps = [appOf('a', { disabled: true }), appOf('b', { disabled: false })];
    const checks = createChecks();
    now += HOUR;
    await runTask(checks);
    expect(checkedIds).toEqual(['b']);
  });

  test('has its last result stored for 60 days, unless it is deleted', async () => {
    const checks = await createChecksAfterFirst();
    expect(await checks.read('a')).toMatchObject({ at: now, findings: currentFindings() });
    expect([...stored.values()]).toMatchObject([{ lifetimeSeconds: 60 * 86_400 }]);
    expect(await checks.read('b')).toBeUndefined();
    await checks.forget('a');
    expect(await checks.read('a')).toBeUndefined();
  });

  test('checked by an administrator has its result stored but not announced', async () => {
    problems = ['keys'];
    const checks = createChecks();
    expect(await checks.run(appOf('a'))).toMatchObject({ at: START, findings: currentFindings() });
    expect(await checks.read('a')).toMatchObject({ at: START, findings: currentFindings() });
    expect(announced).toEqual([]);
  });
});

test('announces a result if its problems differ from those of the last result', async () => {
  const checks = createChecks();
  const problemsOfDays: Finding['check'][][] = [[], ['keys'], ['keys'], ['keys', 'revocation'], [], []];
  for (const problemsOfDay of problemsOfDays) {
    problems = problemsOfDay;
    now += DAY;
    await runTask(checks);
  }
  expect(checkedIds).toHaveLength(problemsOfDays.length);
  const facts = { app: 'a', name: 'App a' };
  expect(announced).toEqual([
    { ...facts, problems: ['keys'] },
    { ...facts, problems: ['keys', 'revocation'] },
    { ...facts, problems: [] },
  ]);
});
