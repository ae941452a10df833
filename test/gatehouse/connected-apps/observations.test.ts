/** Facts about an app's tokens from real sign-ins and refreshes, recorded in the background. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createObservations, type Observations } from '../../../src/gatehouse/connected-apps/observations.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';
import { ProviderError } from '../../../src/shared/provider/provider-error.ts';
import type { TokenResponse } from '../../../src/shared/provider/token-response.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { LONG_TIMEOUT } from '../../support/until.ts';

const APP = { id: 'platform' } as ConnectedApp;
const HOUR = 3_600_000;

let directory: string;
let store: Store;
let now: number;
let writes: number;
let observations: Observations;
beforeEach(async () => {
  now = 1_800_000_000_000;
  writes = 0;
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-observed-'));
  store = await createSqliteStore({ directory, clock: () => now, random: Math.random });
  const countingStore = {
    ...store,
    write: (...given: Parameters<Store['write']>) => {
      writes += 1;
      return store.write(...given);
    },
  };
  observations = createObservations({ store: countingStore, clock: () => now });
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true, force: true });
});

const recordSignIn = (refreshToken: string | undefined, expiresInSeconds: number | undefined) =>
  observations.record(APP, { refreshToken, expiresInSeconds } as TokenResponse, undefined);
const recordRefresh = (refreshToken: string | undefined) =>
  observations.record(APP, { refreshToken, expiresInSeconds: 60 } as TokenResponse, 'rt1');
const expectSeen = (seen: object) =>
  vi.waitFor(async () => expect(await observations.read('platform')).toEqual({ at: now, ...seen }), LONG_TIMEOUT);

test('a sign-in shows whether its token response has a refresh token and a lifetime', async () => {
  expect(await observations.read('platform')).toBeUndefined();
  recordSignIn('rt1', 60);
  await expectSeen({ refreshToken: true, expiresIn: true });
  recordSignIn(undefined, undefined);
  await expectSeen({ refreshToken: false, expiresIn: false });
});

test.each([
  ['rt2', true],
  ['rt1', false],
  [undefined, false],
])('a refresh of rt1 that returns the refresh token %s shows rotation: %s', async (refreshToken, rotates) => {
  recordSignIn('rt1', 60);
  recordRefresh(refreshToken);
  await expectSeen({ refreshToken: true, expiresIn: true, rotates });
});

test('a refresh of an imported connection before the first sign-in does not describe sign-ins', async () => {
  recordRefresh('rt2');
  await expectSeen({ expiresIn: true, rotates: true });
});

test('writes an unchanged observation once an hour, and a change at once', async () => {
  recordSignIn('rt1', 60);
  await expectSeen({ refreshToken: true, expiresIn: true });
  const firstObservation = { at: now, refreshToken: true, expiresIn: true };
  // Three more sign-ins, the last one three seconds before the hour is over.
  for (let signIns = 0; signIns < 3; signIns += 1) {
    now += HOUR / 3 - 1_000;
    recordSignIn('rt1', 60);
  }
  await new Promise((resolve) => setImmediate(resolve));
  expect(writes).toBe(1);
  expect(await observations.read('platform')).toEqual(firstObservation);

  // More than an hour after the first observation.
  now += 10_000;
  recordSignIn('rt1', 60);
  await expectSeen({ refreshToken: true, expiresIn: true });
  recordSignIn('rt1', undefined);
  await expectSeen({ refreshToken: true, expiresIn: false });
  expect(writes).toBe(3);
});

test('Retry-After is at least one second', () => {
  const error = new ProviderError('unavailable', 'timeout', { status: 503 });
  for (const seconds of [0, -5, 0.5, 1]) expect(error.retryIn(seconds).facts.retryAfterSeconds).toBe(1);
  expect(error.retryIn(30).facts.retryAfterSeconds).toBe(30);
  expect(error.retryIn(30)).toMatchObject({ failure: 'unavailable', reason: 'timeout', facts: { status: 503 } });
});
