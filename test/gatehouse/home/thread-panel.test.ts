/** The problem that the start page shows in place of the thread names the party that failed. */
import { expect, test } from 'vitest';
import type { ThreadApp } from '../../../src/gatehouse/connected-apps/current-apps.ts';
import { createThreadPanels } from '../../../src/gatehouse/home/thread-panel.ts';
import type { PlatformCalls } from '../../../src/gatehouse/platform/platform-call.ts';
import { AppError } from '../../../src/shared/errors.ts';

const APP = { id: 'platform', apiBaseUrl: 'https://platform.test', threadPath: '/thread' } as unknown as ThreadApp;

async function problemOf(read: PlatformCalls['read']): Promise<unknown> {
  const calls = { read } as PlatformCalls;
  const panels = createThreadPanels({ calls, nameOf: () => 'Platform' });
  const panel = await panels.panel(APP, 'user', async () => undefined);
  return panel.kind === 'problem' ? panel.code : panel.kind;
}

/** A call that fails once the page no longer waits for it. */
const lateFailure =
  (error: Error): PlatformCalls['read'] =>
  ({ signal }) =>
    new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(error)));

test.concurrent.each<[string, Error]>([
  ['internal', new TypeError('a bug')],
  ['storage_unavailable', new AppError('storage_unavailable')],
  ['platform_error', Object.assign(new Error('reset'), { code: 'ECONNRESET' })],
])('%s', async (code, error) => {
  expect(await problemOf(() => Promise.reject(error))).toBe(code);
});

test.concurrent.each<[string, Error]>([
  ['internal', new TypeError('a bug')],
  ['storage_unavailable', new AppError('storage_unavailable')],
  ['reconnect_needed', new AppError('reconnect_needed')],
  ['platform_rate_limited', new AppError('platform_rate_limited')],
  ['provider_unavailable', new AppError('provider_unavailable')],
  ['platform_timeout', new AppError('platform_error')],
  ['platform_timeout', new Error('the call was stopped')],
])('%s after the time that the page waits', async (code, error) => {
  expect(await problemOf(lateFailure(error))).toBe(code);
});
