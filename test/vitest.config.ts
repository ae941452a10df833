import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import { LongestFirst } from './support/sequencer.ts';

// Some hundred processes run the same files: what the first of them compiled, the others read.
process.env.NODE_COMPILE_CACHE ??= join(tmpdir(), 'gatehouse-test-compiled');

/**
 * They hold processes under load to milliseconds, or to not refusing a single request: on a slow machine that is only true
 * of processes that do not starve beside others.
 */
const HELD_TO_DEADLINES = [
  // What is under way for long because others have the processor outlives collections as well.
  'test/bench/garbage.test.ts',
  'test/faults/crowd-redis.test.ts',
  'test/faults/crowd-sqlite.test.ts',
  'test/faults/redis-loss.test.ts',
  'test/journeys/redis.test.ts',
  'test/server/demo.test.ts',
  'test/server/draining.test.ts',
  'test/server/operations.test.ts',
  'test/server/releases.test.ts',
  'test/server/rolling.test.ts',
  'test/server/start.test.ts',
  // Six servers that take one another for dead when they do not hear for long.
  'test/storage/redis/cluster.test.ts',
];

/**
 * For tests that measure real processes: a deadline that was missed once is measured again. What passes only then is named
 * at the end of the run, so that it is not overlooked.
 */
const MEASURED_AGAIN = { retry: 1 };

/** They start, load and kill processes: beside too much else these would take too long. */
const MANY_PROCESSES = [
  'test/faults/*.test.ts',
  'test/commands/*.test.ts',
  'test/**/*processes.test.ts',
  'test/storage/redis/*.test.ts',
];

export const shared = {
  environment: 'node',
  setupFiles: ['./support/back-to-now.ts', './support/bin-watch.ts', './support/log-watch-setup.ts'].map(
    (file) => new URL(file, import.meta.url).pathname,
  ),
  pool: 'forks',
  // Each process loads the program once, and runs many files: that halves what a run costs.
  isolate: false,
  // Node loads the files itself. Vite would transform each one, for a sixth of the processor time of a run.
  experimental: { viteModuleRunner: false },
  // These end only what hangs: a starved machine takes minutes for what a quiet one does in seconds.
  testTimeout: 600_000,
  hookTimeout: 600_000,
  expect: { poll: { timeout: 120_000 } },
} as const;

export default defineConfig({
  test: {
    root: new URL('..', import.meta.url).pathname,
    sequence: { sequencer: LongestFirst },
    reporters: ['default', new URL('./support/missing.ts', import.meta.url).pathname],
    projects: [
      {
        test: {
          ...shared,
          ...MEASURED_AGAIN,
          name: 'many processes',
          include: MANY_PROCESSES,
          exclude: HELD_TO_DEADLINES,
          maxWorkers: availableParallelism() + 4,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          ...shared,
          ...MEASURED_AGAIN,
          name: 'held to deadlines',
          include: HELD_TO_DEADLINES,
          maxWorkers: 2,
          sequence: { groupOrder: 2 },
        },
      },
      {
        test: {
          ...shared,
          name: 'one process',
          include: ['test/**/*.test.ts'],
          exclude: [...MANY_PROCESSES, ...HELD_TO_DEADLINES, '**/node_modules/**'],
          // More files than there are cores, because many tests wait for a deadline; but each process costs
          // seconds to load and compile the program.
          maxWorkers: availableParallelism() + 2,
          sequence: { groupOrder: 0 },
        },
      },
    ],
  },
});
