/** The steps of a sign-in on its page: all in order, each with its last result. */
import { expect, test } from 'vitest';
import { STEP_NAMES, STEPS, stepResults } from '../../../src/gatehouse/sign-in-record/steps.ts';

const NOW = 1_800_000_000_000;

test('lists every step, and marks those that were not reached', () => {
  const results = stepResults([{ name: 'started', at: NOW, ok: true, detail: 'platform' }]);
  expect(results.map(({ name }) => name)).toEqual(STEP_NAMES);
  const [first, ...others] = results;
  expect(first).toEqual({ name: 'started', text: STEPS.started, result: 'passed', at: NOW, detail: 'platform' });
  for (const { name, ...other } of others)
    expect(other).toEqual({ text: STEPS[name], result: 'not_reached', at: undefined, detail: undefined });
});

test('uses the last result of a repeated step', () => {
  const resultOfRepeated = (first: boolean, second: boolean) => {
    const steps = [
      { name: 'cookie', at: NOW, ok: first },
      { name: 'cookie', at: NOW + 1, ok: second },
    ] as const;
    return stepResults([...steps]).find(({ name }) => name === 'cookie');
  };
  expect(resultOfRepeated(false, true)).toMatchObject({ result: 'passed', text: STEPS.cookie, at: NOW + 1 });
  expect(resultOfRepeated(true, false)).toMatchObject({
    result: 'failed',
    text: 'Not the browser that started the sign-in',
    at: NOW + 1,
  });
});
