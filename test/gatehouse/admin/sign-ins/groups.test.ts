/** Groups of failed sign-ins by cause and app, most frequent first. */
import { expect, test } from 'vitest';
import { failureGroups } from '../../../../src/gatehouse/admin/sign-ins/groups.ts';
import type { SignInView } from '../../../../src/gatehouse/admin/sign-ins/view.ts';

/** @param minute when it began @param cause undefined if it did not fail */
const signIn = (minute: number, cause: string | undefined, app = 'a') =>
  ({
    ...{ id: `s${minute}`, app, appName: `App ${app}`, startedAt: `2026-03-15T12:${minute}:00.000Z` },
    cause: cause === undefined ? null : { code: cause, text: `Words of ${cause}`, advice: '', field: null },
  }) as SignInView;

test('are counted by cause and app, with the newest of each', () => {
  const groups = failureGroups([
    signIn(40, 'denied'),
    signIn(30, 'denied', 'b'),
    signIn(20, 'denied'),
    signIn(10, undefined),
  ]);
  expect(groups).toEqual([
    {
      ...{ cause: 'denied', text: 'Words of denied', field: null, app: 'a', appName: 'App a' },
      ...{ count: 2, lastAt: '2026-03-15T12:40:00.000Z', id: 's40' },
    },
    expect.objectContaining({ app: 'b', count: 1, id: 's30' }),
  ]);
  expect(failureGroups([])).toEqual([]);
});

test('are sorted by count, then newest first, including sign-ins without a result', () => {
  // Newest first, like the lists.
  const sortedCauses = (...signIns: SignInView[]) => failureGroups(signIns).map(({ cause }) => cause);
  const unfinished = [59, 58, 57].map((minute) => signIn(minute, 'nothing_came_back'));
  expect(sortedCauses(...unfinished, signIn(50, 'rare'), signIn(40, 'often'), signIn(30, 'often'))).toEqual([
    'nothing_came_back',
    'often',
    'rare',
  ]);
  expect(sortedCauses(signIn(20, 'older'), signIn(30, 'newer'))).toEqual(['newer', 'older']);
});
