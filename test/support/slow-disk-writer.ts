/**
 * Writes to a shared database as on a slow disk. Its queue is never empty, and each transaction holds the lock for the given
 * time and adds a row with the name of this process to the table `turns`. Prints how many writes were refused.
 * Arguments: the file of the database, the name, milliseconds per transaction, the time to start at, seconds.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { openDatabase } from '../../src/storage/sqlite/database.ts';
import { DEADLINE_MILLISECONDS } from '../../src/storage/sqlite/store.ts';
import { createSqliteWriter } from '../../src/storage/sqlite/writer.ts';

const [file = '', name = '', milliseconds = '', startAt = '', seconds = ''] = process.argv.slice(2);
const retry = { deadlineMilliseconds: DEADLINE_MILLISECONDS, random: Math.random };
const database = await openDatabase(file, retry);
const writer = createSqliteWriter(database, retry);
const addRow = database.prepare('INSERT INTO turns (process) VALUES (?)');
const cell = new Int32Array(new SharedArrayBuffer(4));
const write = () => {
  addRow.run(name);
  // The thread stands still, as it does while SQLite waits for the disk.
  Atomics.wait(cell, 0, 0, Number(milliseconds));
};
let refused = 0;
const stop = new AbortController();
const writeOn = async () => {
  while (!stop.signal.aborted) await writer.run(write, { alone: true }).catch(() => (refused += 1));
};
await sleep(Number(startAt) - Date.now());
const done = Promise.all([writeOn(), writeOn()]);
await sleep(Number(seconds) * 1_000);
stop.abort();
await done;
database.close();
process.stdout.write(`${refused}\n`);
