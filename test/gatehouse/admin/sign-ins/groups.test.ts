/** Groups of failed sign-ins by cause and app, most frequent first. */
import { expect, test } from 'vitest';
import { failureGroups } from '../../../../src/gatehouse/admin/sign-ins/groups.ts';
import type { SignInView } from '../../../../src/gatehouse/admin/sign-ins/view.ts';

/** Newest first, as the lists are; `minute`: when it began. */
const signIn = (minute: number, name: string | undefined, app = 'a') =>
  ({
    ...{ id: `s${minute}`, app, appName: `App ${app}`, startedAt: `2026-03-15T12:${minute}:00.000Z` },
    cause: name === undefined ? null : { name, words: `Words of ${name}`, advice: '', field: null },
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
      ...{ cause: 'denied', words: 'Words of denied', field: null, app: 'a', appName: 'App a' },
      ...{ count: 2, lastAt: '2026-03-15T12:40:00.000Z', id: 's40' },
    },
    expect.objectContaining({ app: 'b', count: 1, id: 's30' }),
  ]);
  expect(failureGroups([])).toEqual([]);
});

test('are sorted by count, then newest first, including sign-ins without a result', () => {
  const order = (...signIns: SignInView[]) => failureGroups(signIns).map(({ cause }) => cause);
  const open = [signIn(59, 'nothing_came_back'), signIn(58, 'nothing_came_back'), signIn(57, 'nothing_came_back')];
  expect(order(...open, signIn(50, 'rare'), signIn(40, 'often'), signIn(30, 'often'))).toEqual([
    'nothing_came_back',
    'often',
    'rare',
  ]);
  expect(order(signIn(20, 'older'), signIn(30, 'newer'))).toEqual(['newer', 'older']);
});
