/** Which tests run where: `npm test` runs the project `each-commit`, `npm run test:long` the other two, `npm run t` the files that it names. */
import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

/** They start, load and kill processes, visit every page, or take longest. */
const LONG = 'test/**/*.long.test.ts';
/**
 * They hold processes under load to milliseconds, or to not refusing a single request. That is only true of processes that do
 * not starve beside others, so two files run at a time.
 */
const TIMED = 'test/**/*.timed.long.test.ts';

/** A deadline that was missed once is measured again. The end of the run names each test that passed only then. */
const MEASURED_AGAIN = { retry: 1 };

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

// More files at once than there are cores, because many tests wait for a deadline. A process costs a second to load the program.
const workers = availableParallelism() + 2;

export default defineConfig({
  test: {
    root: new URL('..', import.meta.url).pathname,
    reporters: ['default', new URL('./support/missing.ts', import.meta.url).pathname],
    projects: [
      {
        test: {
          ...shared,
          name: 'each-commit',
          include: ['test/**/*.test.ts'],
          exclude: [LONG, '**/node_modules/**'],
          maxWorkers: workers,
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          ...shared,
          ...MEASURED_AGAIN,
          name: 'long',
          include: [LONG],
          exclude: [TIMED, '**/node_modules/**'],
          maxWorkers: workers + 1,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          ...shared,
          ...MEASURED_AGAIN,
          name: 'timed',
          include: [TIMED],
          exclude: ['**/node_modules/**'],
          maxWorkers: 2,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
});
