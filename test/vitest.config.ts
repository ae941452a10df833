import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    root: new URL('..', import.meta.url).pathname,
    include: ['test/**/*.test.ts'],
    environment: 'node',
    pool: 'forks',
    // Most of the time is spent waiting for deadlines and for other processes, so more files run than there are cores.
    maxWorkers: availableParallelism() + 1,
    reporters: ['default', new URL('./support/missing.ts', import.meta.url).pathname],
    testTimeout: 20_000,
    hookTimeout: 30_000,
  },
});
