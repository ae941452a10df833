/**
 * Writes to a shared database as on a slow disk. Its queue is never empty. Each transaction holds the lock for the
 * given time and adds a row with the name of this process to the table `turns`. Prints `ready`, writes for four seconds
 * after a line on its standard input, and prints the number of refused writes. Arguments: the file of the database, the
 * name of this process, milliseconds per transaction.
 */
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '../../src/shared/errors.ts';
import { openDatabase } from '../../src/shared/storage/sqlite/database.ts';
import { DEADLINE_MILLISECONDS } from '../../src/shared/storage/sqlite/store.ts';
import { createSqliteWriter } from '../../src/shared/storage/sqlite/writer.ts';

const [file = '', name = '', milliseconds = ''] = process.argv.slice(2);
const retry = { deadlineMilliseconds: DEADLINE_MILLISECONDS, random: Math.random };
const database = await openDatabase(file, retry);
const writer = createSqliteWriter(database, retry);
const addRow = database.prepare('INSERT INTO turns (process) VALUES (?)');
const cell = new Int32Array(new SharedArrayBuffer(4));
const write = () => {
  addRow.run(name);
  // Blocks the thread, as SQLite does while it waits for the disk.
  Atomics.wait(cell, 0, 0, Number(milliseconds));
};
let refused = 0;
const stop = new AbortController();
const countRefusal = (error: unknown) => {
  if (!(error instanceof AppError && error.code === 'storage_unavailable')) throw error;
  refused += 1;
};
const keepWriting = async () => {
  while (!stop.signal.aborted) await writer.run(write, { separate: true }).catch(countRefusal);
};
process.stdout.write('ready\n');
await once(process.stdin, 'data');
process.stdin.pause();
const done = Promise.all([keepWriting(), keepWriting()]);
await sleep(4_000);
stop.abort();
await done;
database.close();
process.stdout.write(`${refused}\n`);
