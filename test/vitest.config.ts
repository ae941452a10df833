/** The test projects: `npm test` runs `each-commit`, `npm run test:long` the other two, `npm run t` the given files. */
import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

/** Tests that start, load and kill processes, visit every page, or are slow. */
const LONG = 'test/**/*.long.test.ts';
/**
 * Tests that hold processes under load to deadlines, or to refusing no request. Processes that starve would fail them,
 * so two files run at a time.
 */
const TIMED = 'test/**/*.timed.long.test.ts';

/** A missed deadline is measured again. The end of the run lists the tests that passed only the second time. */
const RETRY_ONCE = { retry: 1 };

export const shared = {
  environment: 'node',
  setupFiles: ['./support/reset-after-file.ts', './support/bin-watch.ts', './support/log-watch-setup.ts'].map(
    (file) => new URL(file, import.meta.url).pathname,
  ),
  pool: 'forks',
  // Each process loads the program once and runs many files, which halves the cost of a run.
  isolate: false,
  // Node loads the files itself. Transforming each with Vite would take a sixth of the CPU time of a run.
  experimental: { viteModuleRunner: false },
  // These end only tests that hang: a starved machine takes minutes for work that an idle one does in seconds.
  testTimeout: 600_000,
  hookTimeout: 600_000,
  expect: { poll: { timeout: 120_000 } },
} as const;

// More files at a time than cores, because many tests wait for a deadline. Each process takes a second to load the
// program.
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
          ...RETRY_ONCE,
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
          ...RETRY_ONCE,
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
