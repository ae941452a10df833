import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    root: new URL('..', import.meta.url).pathname,
    include: ['test/**/*.test.ts'],
    environment: 'node',
    pool: 'forks',
    // As many files at once as there are cores: more of them would starve the tests that hold to deadlines.
    maxWorkers: availableParallelism(),
    reporters: ['default', new URL('./support/missing.ts', import.meta.url).pathname],
    testTimeout: 20_000,
    hookTimeout: 30_000,
  },
});
