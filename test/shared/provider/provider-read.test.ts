/** The cache of a provider's documents: how long a value is used, and how often a failed read is repeated. */
import { beforeEach, describe, expect, test } from 'vitest';
import { ProviderError } from '../../../src/shared/provider/provider-error.ts';
import { type CachedReads, cachedReads } from '../../../src/shared/provider/provider-read.ts';

let now: number;
let reads: [key: string, app: string | undefined][];
let results: (string | Error | Promise<string>)[];
let failuresBefore: number[];
let cache: CachedReads<string, string>;
let load: (key: string, app?: string) => Promise<string>;
beforeEach(() => {
  now = 5_000;
  reads = [];
  results = [];
  failuresBefore = [];
  const read = async (key: string, app: string | undefined) => {
    reads.push([key, app]);
    const result = await (results.shift() ?? `${key} ${reads.length}`);
    if (result instanceof Error) throw result;
    return result;
  };
  const times = {
    freshMs: 1_000,
    usableMs: 10_000,
    pauseMs: (failures: number) => {
      failuresBefore.push(failures);
      return 1_500;
    },
  };
  cache = cachedReads(new Map(), read, times, () => now);
  load = cache.load;
});

const down = () => new ProviderError('unavailable', 'timeout', { status: 503 });
const valueOrFailure = (reading: Promise<string>) =>
  reading.then(
    (value) => value,
    ({ reason, facts }: ProviderError) => [reason, facts.retryAfterSeconds],
  );

describe('a value', () => {
  test('is used until it is no longer fresh, and read for the app that needs it', async () => {
    expect([await load('a', 'platform'), await load('a', 'files')]).toEqual(['a 1', 'a 1']);

    now += 999;
    expect(await load('a')).toBe('a 1');

    now += 1;
    expect(await load('a', 'files')).toBe('a 2');
    expect(reads).toEqual([
      ['a', 'platform'],
      ['a', 'files'],
    ]);
  });

  test('is cached by key', async () => {
    expect([await load('a'), await load('b'), await load('a')]).toEqual(['a 1', 'b 2', 'a 1']);
  });

  test('is read once for concurrent callers', async () => {
    const heldRead = Promise.withResolvers<string>();
    results = [heldRead.promise];
    const waiting = [load('a'), load('a')];
    heldRead.resolve('read');
    expect(await Promise.all(waiting)).toEqual(['read', 'read']);
    expect(reads).toHaveLength(1);
  });

  test('that is stale is used up to a maximum age while it cannot be read', async () => {
    await load('a');
    now += 9_999;
    results = [down()];
    expect(await load('a')).toBe('a 1');

    now += 1;
    expect(await valueOrFailure(load('a'))).toEqual(['timeout', 2]);
  });

  test('that is read after a failure replaces the earlier one', async () => {
    await load('a');
    now += 1_000;
    results = [down()];
    expect(await load('a')).toBe('a 1');

    now += 1_500;
    expect(await load('a')).toBe('a 3');
  });
});

describe('a provider that is down', () => {
  test('is not called during the pause, and callers learn its length', async () => {
    results = [down()];
    expect(await valueOrFailure(load('a'))).toEqual(['timeout', undefined]);
    expect(await valueOrFailure(load('a'))).toEqual(['timeout', 2]);

    now += 501;
    expect(await valueOrFailure(load('a'))).toEqual(['timeout', 1]);

    now += 998;
    expect(await valueOrFailure(load('a'))).toEqual(['timeout', 1]);
    expect(reads).toHaveLength(1);

    now += 1;
    expect(await load('a')).toBe('a 2');
  });

  test('is not called during the pause while an earlier value is used', async () => {
    await load('a');
    now += 1_000;
    results = [down()];
    await load('a');
    now += 1_499;
    expect(await load('a')).toBe('a 1');
    expect(reads).toHaveLength(2);
  });

  test('has its consecutive failures counted from the last success', async () => {
    results = [down(), down(), down(), 'read', down()];
    for (let call = 0; call < 5; call += 1) {
      await valueOrFailure(load('a'));
      now += 1_500;
    }
    expect(failuresBefore).toEqual([0, 1, 2, 0]);

    await valueOrFailure(load('a'));
    expect(failuresBefore).toEqual([0, 1, 2, 0]);
  });
});

test('any error becomes a ProviderError', async () => {
  results = [new TypeError('of a library')];
  await expect(load('a')).rejects.toMatchObject({ failure: 'invalid', reason: 'unreadable_response' });
});
