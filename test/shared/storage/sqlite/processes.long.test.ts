/** Several real processes on one database file. */
import { readdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest';
import { openDatabase } from '../../../../src/shared/storage/sqlite/database.ts';
import { createSqliteStore, DATABASE_FILE } from '../../../../src/shared/storage/sqlite/store.ts';
import { startChild } from '../../../support/child.ts';
import { PROCESSES, startWorker, testProcesses } from '../processes-suite.ts';

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'gatehouse-'));
});

afterEach(() => rm(directory, { recursive: true }));

testProcesses({ location: () => directory, open: () => createSqliteStore({ directory }) });

test('simultaneous first starts of four processes create one database with the writes of all', async () => {
  for (let round = 0; round < 6; round += 1) {
    const data = join(directory, `round ${round}`);
    const startAt = String(Date.now() + 400);
    const children = PROCESSES.map((name) => startWorker(data, 'sign', name, startAt));
    await Promise.all(children.map((child) => child.ended));
    const store = await createSqliteStore({ directory: data });
    const records = await Promise.all(PROCESSES.map((name) => store.get(`signed by ${name}`)));
    expect(records.map((record) => record?.value)).toEqual(PROCESSES.map(() => 'v'));
    expect(readdirSync(data).filter((name) => name.endsWith('.new'))).toEqual([]);
    await store.close();
  }
});

test.each([
  { milliseconds: 8, maxRun: 40 },
  { milliseconds: 100, maxRun: 12 },
])('two processes with full queues take turns on a disk that takes $milliseconds ms', async (disk) => {
  const file = join(directory, DATABASE_FILE);
  const database = await openDatabase(file, { deadlineMilliseconds: 1_000, random: Math.random });
  onTestFinished(() => database.close());
  database.exec('CREATE TABLE turns (number INTEGER PRIMARY KEY, process TEXT)');
  const children = ['A', 'B'].map((name) => startChild('slow-disk-writer.ts', [file, name, String(disk.milliseconds)]));
  await expect.poll(() => children.map(({ lines }) => lines)).toEqual([['ready'], ['ready']]);

  for (const child of children) child.send('start');
  expect(await Promise.all(children.map(({ ended }) => ended))).toEqual([
    ['ready', '0'],
    ['ready', '0'],
  ]);

  const rows = database.prepare('SELECT process FROM turns ORDER BY number').all();
  const turns = rows.map(({ process }) => process).join('');
  // Before the second process starts and after the first one ends, only one process writes.
  const sharedTurns = turns.replace(/^(.)\1*/, '').replace(/(.)\1*$/, '');
  expect(sharedTurns.length, turns).toBeGreaterThan(10);

  const longestRun = Math.max(...[...sharedTurns.matchAll(/A+|B+/g)].map(([run]) => run.length));
  expect(longestRun, turns).toBeLessThanOrEqual(disk.maxRun);
});

test.each([
  ['durable', 'grant'],
  ['relaxed', 'last-use'],
])(
  'R51: a kill -9 during %s writes damages no file, loses no acknowledged write, and leaves no partial write',
  async (_, kind) => {
    for (let round = 0; round < 8; round += 1) {
      const child = startWorker(directory, 'storm', kind);
      await expect.poll(() => child.lines.length, { interval: 2 }).toBeGreaterThan(20 + round * 7);
      child.kill('SIGKILL');
      const acknowledged = Number((await child.ended).at(-1));
      const store = await createSqliteStore({ directory });
      const stored = Number((await store.get(`${kind}:{p}:left`))?.value);
      expect(stored).toBeGreaterThanOrEqual(acknowledged);
      expect((await store.get(`${kind}:{p}:right`))?.value).toBe(String(stored));
      expect(await store.count(`${kind}:{p}:numbers`)).toBe(stored);
      await store.close();
    }
    const database = new DatabaseSync(join(directory, DATABASE_FILE), { readOnly: true });
    expect(database.prepare('PRAGMA integrity_check').all()).toEqual([{ integrity_check: 'ok' }]);
    database.close();
  },
);
