/** Resets clock, timers and spies after each test file, because one process runs many files. */
import { afterAll, vi } from 'vitest';
import { backToNow } from './passing-time.ts';

afterAll(() => {
  backToNow();
  vi.useRealTimers();
  vi.restoreAllMocks();
});
