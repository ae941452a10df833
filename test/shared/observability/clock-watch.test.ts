/** A clock that is set while the process runs. */
import { afterEach, expect, test } from 'vitest';
import { watchClock } from '../../../src/shared/observability/observability.ts';
import { until } from '../../support/until.ts';

let stop = () => {};
afterEach(() => stop());

test.each([3_600_000, -3_600_000, 30_000])('notices a jump by %i ms once', async (jump) => {
  let wall = 1_000_000;
  let monotonic = 0;
  let readings = 0;
  const jumps: number[] = [];
  const clock = () => {
    readings += 1;
    return wall;
  };
  const onJump = (seconds: number) => jumps.push(seconds);
  stop = watchClock({ clock, monotonicClock: () => monotonic, onJump, intervalMilliseconds: 1 });
  const waitForTwoChecks = async () => {
    const readingsBefore = readings;
    await until(() => readings > readingsBefore + 1);
  };
  wall += 60_000;
  monotonic += 60_000;
  await waitForTwoChecks();
  expect(jumps).toEqual([]);

  wall += jump;
  await waitForTwoChecks();
  expect(jumps).toEqual([jump / 1_000]);
});
