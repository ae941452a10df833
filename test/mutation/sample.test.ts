/** Which mutants a run of `npm run mutation` takes: the same ones each time, about as many as were asked for; and what is told of it. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Figures } from './report.ts';
import { ROOMS } from './rooms.ts';
import { isInSample, type Mutant, nameOf } from './sample.ts';

interface Kept extends Figures {
  samplePercent: number;
  /** Left out where it is nought. */
  fromPercent?: number;
}

const mutants: Mutant[] = Array.from({ length: 5_000 }, (_one, n) => ({
  file: `src/http/file-${n % 20}.ts`,
  start: { line: n, column: 4 },
  end: { line: n, column: 9 },
  mutator: 'ConditionalExpression',
  replacement: n % 2 ? 'true' : 'false',
}));
const sampled = (percent: number, from?: number) =>
  new Set(mutants.filter((one) => isInSample(one, percent, from)).map(nameOf));

test('a sample holds about its share, over all files, and a larger one holds it', () => {
  const [some, more] = [sampled(8), sampled(16)];
  expect(some.size).toBeGreaterThan(300);
  expect(some.size).toBeLessThan(500);
  expect([...some].filter((name) => !more.has(name))).toEqual([]);
  expect(new Set([...some].map((name) => JSON.parse(name)[0])).size).toBe(20);
  expect([sampled(100).size, sampled(0).size]).toEqual([mutants.length, 0]);
});

test('a sample from where another ends holds none of it, and both together are the larger one', () => {
  const [first, next] = [sampled(8), sampled(6, 8)];
  expect(next.size).toBeGreaterThan(200);
  expect(first.isDisjointFrom(next)).toBe(true);
  expect(first.union(next)).toEqual(sampled(14));
});

test('a mutant is the same in the project and in the copy that Stryker works on', () => {
  const [one] = mutants as [Mutant];
  expect(nameOf({ ...one, file: `/somewhere/src-of-mine/${one.file}` })).toBe(nameOf(one));
  expect(nameOf({ ...one, replacement: '' })).not.toBe(nameOf(one));
});

test('every test file of a room is there, once', () => {
  for (const files of Object.values(ROOMS)) {
    expect(files.filter((name) => !existsSync(join(import.meta.dirname, '..', `${name}.test.ts`)))).toEqual([]);
    expect(new Set(files).size).toBe(files.length);
  }
});

test('the figures that were kept are of rooms that there are, and add up', () => {
  const results = JSON.parse(readFileSync(join(import.meta.dirname, 'results.json'), 'utf8')) as Record<string, Kept>;
  expect(Object.keys(results).filter((room) => !(room in ROOMS))).toEqual([]);
  for (const { mutants, killed, timedOut, notTried, failed, score } of Object.values(results)) {
    expect(Math.round((1_000 * (killed + timedOut)) / (mutants - notTried - failed)) / 10).toBe(score);
  }
});
