/** One process runs many test files: whatever one of them did to clock, spies and environment ends with it. */
import { afterAll, vi } from 'vitest';
import { backToNow } from './passing-time.ts';

afterAll(() => {
  backToNow();
  vi.useRealTimers();
  vi.restoreAllMocks();
});
