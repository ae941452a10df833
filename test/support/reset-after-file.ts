/** Resets clock, timers and spies after each test file, because one process runs many files. */
import { afterAll, vi } from 'vitest';
import { resetClock } from './test-clock.ts';

afterAll(() => {
  resetClock();
  vi.useRealTimers();
  vi.restoreAllMocks();
});
