/** A clock that is set while the process runs. */
import { afterEach, expect, test } from 'vitest';
import { watchClock } from '../../../src/shared/observability/observability.ts';
import { until } from '../../support/until.ts';

let stop = () => {};
afterEach(() => stop());

test.each([3_600_000, -3_600_000, 30_000])('a jump by %i ms is noticed once', async (jump) => {
  let wall = 1_000_000;
  let steady = 0;
  let looks = 0;
  const jumps: number[] = [];
  const clock = () => {
    looks += 1;
    return wall;
  };
  const onJump = (seconds: number) => jumps.push(seconds);
  stop = watchClock({ clock, monotonicClock: () => steady, onJump, intervalMilliseconds: 1 });
  const lookTwice = async () => {
    const since = looks;
    await until(() => looks > since + 1);
  };
  wall += 60_000;
  steady += 60_000;
  await lookTwice();
  expect(jumps).toEqual([]);
  wall += jump;
  await lookTwice();
  expect(jumps).toEqual([jump / 1_000]);
});
