/** Tests of several processes on one store: one suite for every implementation of the port. */
import { expect, test } from 'vitest';
import type { Store } from '../../../src/shared/storage/store.ts';
import { type Child, startChild } from '../../support/child.ts';
import { startStopwatch } from '../../support/stopwatch.ts';

export const PROCESSES = ['A', 'B', 'C', 'D'];

/** @param location a Redis URL, or the directory of a database */
export function startWorker(location: string, task: string, name = '', startAt = '0'): Child {
  return startChild('store-worker.ts', [location, task, name, startAt]);
}

/** @param harness `location`: the URL or directory of the store; `open`: opens it in this process */
export function testProcesses({ location, open }: { location: () => string; open: () => Promise<Store> }): void {
  const runAll = async (task: string): Promise<string[]> => {
    const children = PROCESSES.map((name) => startWorker(location(), task, name));
    return (await Promise.all(children.map((child) => child.ended))).flat();
  };
  const withStore = async <T>(work: (store: Store) => Promise<T>): Promise<T> => {
    const store = await open();
    return work(store).finally(() => store.close());
  };

  test('each of a hundred keys is deleted by exactly one of four processes', async () => {
    await withStore((store) =>
      Promise.all(Array.from({ length: 100 }, (_, n) => store.write([{ put: `ticket ${n}`, value: 'v' }]))),
    );
    const deleted = (await runAll('take')).map(Number).toSorted((a, b) => a - b);
    expect(deleted).toEqual(Array.from({ length: 100 }, (_, n) => n));
  });

  test('four processes reserve exactly up to the limit', async () => {
    const reserved = (await runAll('reserve')).map(Number).toSorted((a, b) => a - b);
    expect(reserved).toEqual(Array.from({ length: 200 }, (_, n) => n + 1));
    expect(await withStore((store) => store.counter('quota'))).toBe(200);
  });

  test('no compare-and-set by four processes is lost', async () => {
    expect(await runAll('compareAndSet')).toEqual(['done', 'done', 'done', 'done']);
    expect((await withStore((store) => store.get('sum')))?.value).toBe('200');
  });

  test('R36: a lease excludes the other three processes, and its numbers never repeat', async () => {
    const numbers = await runAll('lease');
    expect(new Set(numbers).size).toBe(80);
    expect((await withStore((store) => store.get('sum:{g}')))?.value).toBe('80');
  });

  test('messages reach the other processes, in order, within a second', async () => {
    const listeners = PROCESSES.map((name) => startWorker(location(), 'listen', name));
    await expect.poll(() => listeners.every(({ lines }) => lines[0] === 'listening')).toBe(true);

    await withStore(async (store) => {
      const expected = ['listening', ...Array.from({ length: 50 }, (_, n) => `message ${n}`)];
      for (const message of expected.slice(1)) await store.publish('channel', message);
      const elapsed = startStopwatch();
      await expect.poll(() => listeners.map(({ lines }) => lines)).toEqual(PROCESSES.map(() => expected));
      expect(elapsed()).toBeLessThan(1_000);
    });
    for (const listener of listeners) listener.endInput();
    await Promise.all(listeners.map(({ ended }) => ended));
  });

  test('a process that has closed its store ends at once', async () => {
    const child = startWorker(location(), 'close');
    await expect.poll(() => child.lines, { interval: 10 }).toEqual(['closed']);

    const took = startStopwatch();
    await child.ended;
    expect(took()).toBeLessThan(3_000);
  });
}
