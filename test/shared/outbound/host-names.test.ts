/** Lookups of host names are shared and checked at each use, and slow names never occupy all threads. */
import type { lookup as systemLookup } from 'node:dns';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { createAddressPolicy } from '../../../src/shared/outbound/address-policy.ts';
import { createCheckedLookup } from '../../../src/shared/outbound/checked-lookup.ts';
import { createHostNames, type HostNames } from '../../../src/shared/outbound/host-names.ts';
import { createOutbound } from '../../../src/shared/outbound/outbound.ts';

type Done = (error: Error | null, addresses?: object[]) => void;

/** The names that reached the resolver. */
let lookedUp: string[];
/** The lookups that the resolver has not responded to. */
let openLookups: Map<string, Done>;
let slowReports: { host: string; repeated?: true | undefined }[];
let isDead: (name: string) => boolean;
let names: HostNames;
const lookup = ((name: string, _options: object, done: Done) => {
  lookedUp.push(name);
  if (isDead(name)) openLookups.set(name, done);
  else done(null, [{ address: '93.184.216.34', family: 4 }]);
}) as unknown as typeof systemLookup;

beforeEach(() => {
  vi.useFakeTimers();
  lookedUp = [];
  openLookups = new Map();
  slowReports = [];
  isDead = (name) => name.endsWith('dead.example');
  names = createHostNames({ lookup, onSlow: (report) => void slowReports.push(report), threadPoolSize: 16 });
});
afterEach(() => void vi.useRealTimers());

const addressOrError = (name: string) =>
  names.resolve(name).then(
    (addresses) => addresses[0]?.address,
    (error: Error) => error.message,
  );
const advanceSeconds = (seconds: number) => vi.advanceTimersByTimeAsync(seconds * 1000);
const TOO_LATE = 'The host name was not resolved in time.';
const REFUSED = 'Too many slow host names are being looked up.';

/** Runs at most `count` lookups at a time, like libuv. */
function onThreads(count: number): typeof systemLookup {
  const waiting: (() => void)[] = [];
  let running = 0;
  return ((name: string, options: object, done: Done) => {
    const start = () => {
      running += 1;
      (lookup as unknown as (name: string, options: object, done: Done) => void)(name, options, (...result) => {
        running -= 1;
        done(...result);
        waiting.shift()?.();
      });
    };
    if (running < count) start();
    else waiting.push(start);
  }) as unknown as typeof systemLookup;
}

/** Ends a lookup like the system after its own timeout. */
const timeOut = (name: string) =>
  openLookups.get(name)?.(Object.assign(new Error('no response'), { code: 'EAI_AGAIN' }));

describe('R129 one name', () => {
  test('is looked up once at a time for any number of calls', async () => {
    const waiting = Array.from({ length: 50 }, () => addressOrError('dead.example'));
    await advanceSeconds(3);
    expect(new Set(await Promise.all(waiting))).toEqual(new Set([TOO_LATE]));
    expect(lookedUp).toEqual(['dead.example']);
    expect(names.isAwaited('dead.example')).toBe(true);

    // A later call does not wait for a lookup that has already run for 3 s.
    const laterCall = addressOrError('dead.example');
    await advanceSeconds(0.01);
    expect(await laterCall).toBe(TOO_LATE);
    expect(lookedUp).toEqual(['dead.example']);
  });

  test('shares its addresses for 5 s, and a failure for 1 s', async () => {
    await addressOrError('a.example');
    await advanceSeconds(4.9);
    await addressOrError('a.example');
    expect(lookedUp).toHaveLength(1);

    await advanceSeconds(0.2);
    await addressOrError('a.example');
    expect(lookedUp).toHaveLength(2);

    const failed = addressOrError('dead.example');
    timeOut('dead.example');
    expect([await failed, await addressOrError('dead.example')]).toEqual(['no response', 'no response']);

    await advanceSeconds(1.1);
    const retried = addressOrError('dead.example');
    timeOut('dead.example');
    await retried;
    expect(lookedUp).toHaveLength(4);
  });

  test('that is slow is reported after a second, and marked as repeated within a minute', async () => {
    for (const _time of [1, 2, 3]) {
      const slowLookup = addressOrError('dead.example');
      await advanceSeconds(10);
      timeOut('dead.example');
      await slowLookup;
      await advanceSeconds(15);
    }
    expect(slowReports).toEqual([
      { host: 'dead.example' },
      { host: 'dead.example', repeated: true },
      { host: 'dead.example', repeated: true },
    ]);

    await advanceSeconds(30);
    void addressOrError('dead.example');
    await advanceSeconds(1);
    expect(slowReports.at(-1)).toEqual({ host: 'dead.example' });
  });
});

describe('R129 names that do not resolve', () => {
  const dead = (count: number) => Array.from({ length: count }, (_, index) => `${index}.dead.example`);

  test('leave threads for a new name, and for a name that has resolved', async () => {
    await addressOrError('old.example');
    await advanceSeconds(6);
    const waiting = dead(5).map(addressOrError);
    await advanceSeconds(0);
    expect(await Promise.all(['new.example', 'old.example'].map(addressOrError))).toEqual([
      '93.184.216.34',
      '93.184.216.34',
    ]);

    await advanceSeconds(3);
    expect(new Set(await Promise.all(waiting))).toEqual(new Set([TOO_LATE]));
  });

  test('occupy at most a quarter of the threads once they are known to be slow; further ones are refused at once', async () => {
    const firstCalls = dead(6).map(addressOrError);
    await advanceSeconds(10);
    for (const name of dead(6)) timeOut(name);
    await Promise.all(firstCalls);
    await advanceSeconds(2);
    lookedUp = [];
    const second = dead(6).map(addressOrError);
    await advanceSeconds(3);
    expect(await Promise.all(second)).toEqual([TOO_LATE, TOO_LATE, REFUSED, REFUSED, REFUSED, REFUSED]);
    expect(lookedUp).toEqual(['0.dead.example', '1.dead.example']);
  });

  test('delay no name that has resolved, even if they are many', async () => {
    await addressOrError('old.example');
    await advanceSeconds(6);
    const firstCalls = dead(100).map(addressOrError);
    await advanceSeconds(0);
    expect(lookedUp.filter((name) => name.endsWith('dead.example'))).toHaveLength(6);
    expect(await addressOrError('old.example')).toBe('93.184.216.34');

    await advanceSeconds(3);
    await Promise.all(firstCalls);
    // Queued names are looked up as lookups end.
    for (const name of [...openLookups.keys()]) timeOut(name);
    await advanceSeconds(0);
    expect(lookedUp.filter((name) => name.endsWith('dead.example')).length).toBeGreaterThan(6);
  });

  test('delay no other name if all of them resolved before', async () => {
    isDead = () => false;
    await Promise.all([...dead(20), 'old.example'].map(addressOrError));
    isDead = (name) => name.endsWith('dead.example');
    await advanceSeconds(6);
    lookedUp = [];
    const firstCalls = dead(20).map(addressOrError);
    const oldNameCall = addressOrError('old.example');
    await advanceSeconds(0);
    expect(lookedUp).toEqual(dead(6));
    expect(await addressOrError('new.example')).toBe('93.184.216.34');

    // They and the name queued behind them keep their last addresses.
    await advanceSeconds(1);
    expect(new Set(await Promise.all([...firstCalls, oldNameCall]))).toEqual(new Set(['93.184.216.34']));

    const repeated = addressOrError('0.dead.example');
    await advanceSeconds(0.01);
    expect([await repeated, names.isAwaited('0.dead.example')]).toEqual(['93.184.216.34', false]);

    // All are slow now; even a name that is not looked up keeps its addresses for a minute from its last result.
    await advanceSeconds(9);
    for (const name of dead(6)) timeOut(name);
    await advanceSeconds(2);
    const laterCalls = dead(20).map(addressOrError);
    await advanceSeconds(0.01);
    expect(new Set(await Promise.all(laterCalls))).toEqual(new Set(['93.184.216.34']));

    await advanceSeconds(43);
    const lateCalls = dead(20).map(addressOrError);
    await advanceSeconds(3);
    expect(new Set(await Promise.all(lateCalls))).toEqual(new Set([REFUSED, TOO_LATE]));
    expect(names.isAwaited('6.dead.example')).toBe(true);
  });

  test.each([4, 2])('leave a pool of %i threads to a name that has resolved', async (threadPoolSize) => {
    names = createHostNames({ lookup: onThreads(Math.ceil(threadPoolSize / 2)), threadPoolSize });
    await addressOrError('old.example');
    await advanceSeconds(6);
    for (const name of dead(2)) void addressOrError(name);
    const oldNameCall = addressOrError('old.example');
    await advanceSeconds(1);
    expect(await oldNameCall).toBe('93.184.216.34');
  });

  test('are no longer limited once they resolve in time', async () => {
    const firstCalls = dead(6).map(addressOrError);
    await advanceSeconds(10);
    for (const name of dead(6)) timeOut(name);
    await Promise.all(firstCalls);
    isDead = () => false;
    await advanceSeconds(2);
    expect(new Set(await Promise.all(dead(6).map(addressOrError)))).toEqual(new Set(['93.184.216.34']));

    await advanceSeconds(6);
    isDead = (name) => name.endsWith('dead.example');
    lookedUp = [];
    for (const name of dead(6)) void addressOrError(name);
    await advanceSeconds(0);
    expect(lookedUp).toHaveLength(6);
  });
});

test('R79 shared addresses are checked at each use, by the rules of each name', async () => {
  const internal = ((_name: string, _options: object, done: Done) =>
    done(null, [{ address: '10.0.0.1', family: 4 }])) as unknown as typeof systemLookup;
  let isAllowed = true;
  const policy = {
    ...createAddressPolicy([]),
    checkAddress: () => (isAllowed ? undefined : ('private_address' as const)),
  };
  const checkedLookup = createCheckedLookup(policy, createHostNames({ lookup: internal }));
  const use = () =>
    new Promise((resolve) =>
      checkedLookup('one.example', { all: true }, (error, addresses) => resolve(error ?? addresses)),
    );
  expect(await use()).toEqual([{ address: '10.0.0.1', family: 4 }]);

  isAllowed = false;
  expect(await use()).toMatchObject({ rule: 'private_address' });
});

describe('R129 a call to a name that does not resolve', () => {
  const LIMITS = { deadlineMilliseconds: 15_000, maxBytes: 1_000 };
  beforeEach(() => void vi.useRealTimers());

  test.each([15_000, 400])(
    'ends by its deadline of %i ms with an error that contains the name',
    async (deadlineMilliseconds) => {
      const outbound = createOutbound({ policy: createAddressPolicy([]), lookup });
      const startedAt = performance.now();
      const error = await outbound
        .fetch('https://idp.dead.example/token', { method: 'POST' }, { ...LIMITS, deadlineMilliseconds })
        .catch((thrown: unknown) => thrown);
      expect(performance.now() - startedAt).toBeLessThan(Math.min(deadlineMilliseconds, 3_000) + 1_500);
      expect(error).toMatchObject({
        reason: 'timeout',
        sent: false,
        message: 'the name idp.dead.example was not resolved in time',
      });

      await outbound.close();
    },
  );

  test('does not affect calls to other hosts', async () => {
    const server = createServer((_req, res) => void res.end('{}'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const outbound = createOutbound({ policy: createAddressPolicy(['127.0.0.1']), lookup });
    const stuckCalls = Promise.allSettled(
      Array.from({ length: 100 }, () =>
        outbound.fetch('https://idp.dead.example/', {}, { ...LIMITS, deadlineMilliseconds: 300 }),
      ),
    );
    expect((await outbound.fetch(url, {}, LIMITS)).status).toBe(200);

    await stuckCalls;
    expect(lookedUp).toEqual(['idp.dead.example']);

    await outbound.close();
    server.close();
  });
});
