/** The requests of the benchmark of the administration. */
import { encodeCursor } from '../../src/shared/storage/paging.ts';
import { DAY_MS, isoTime } from '../../src/shared/time.ts';
import { userOf } from './large-storage.ts';

/** For each list: the first page, a page in the middle, each filter, and searches with many results, one or none. */
export function listRequests(users: number): string[] {
  const user = userOf(Math.floor(users / 2 / 10) * 10);
  const middleOfList = encodeCursor({ score: Date.now() - 15 * DAY_MS, member: '' });
  const searches = ['anna', 'smith', 'a', 'idp|', 'zzzz', user.email, user.id].map(
    (text) => `q=${encodeURIComponent(text)}`,
  );
  // The search finds the same users by name and by e-mail address, and must list each only once.
  const pageOfAddresses = `q=a&after=${encodeCursor({ score: 0, member: 'anna.' })}`;
  const queries: Record<string, readonly string[]> = {
    users: ['', `after=${middleOfList}`, ...searches, pageOfAddresses],
    sessions: ['', `after=${middleOfList}`, `user=${user.id}`, ...searches],
    connections: [
      '',
      `after=${middleOfList}`,
      `user=${user.id}`,
      ...searches,
      'q=a&app=calendar',
      'q=anna&health=unverified',
      'app=platform',
      `app=calendar&after=${middleOfList}`,
      'health=reconnect_needed',
      'health=unverified',
      'app=calendar&health=unverified',
      'scopes=missing',
    ],
    revocations: [''],
    'sign-ins': [
      '',
      `after=${middleOfList}`,
      'outcome=unsuccessful',
      `q=${userOf(users - 10).email}`,
      'q=nobody@example.test',
      'q=00000000',
    ],
    audit: [
      '',
      `after=${middleOfList}`,
      'event=sign_in.failed',
      `actor=${user.id}`,
      `target=${user.id}`,
      'target=platform',
      'event=sign_in.failed&target=platform',
      `event=sign_in.failed&actor=${user.id}`,
      'q=anna',
      'q=zzzz',
      `from=${isoTime(Date.now() - 16 * DAY_MS)}&to=${isoTime(Date.now() - 15 * DAY_MS)}`,
    ],
    'connected-apps': ['', 'q=cal'],
    'relay-tokens': ['', 'q=service-1', 'q=zzzz'],
    'connect-links': ['', 'q=zzzz'],
    'service-accounts': ['', 'q=zzzz'],
    webhooks: ['', 'q=hooks-1', 'q=zzzz'],
    'admin-tokens': ['', 'q=zzzz'],
  };
  const lists = Object.entries(queries).flatMap(([list, queriesOfList]) =>
    queriesOfList.flatMap((query) => {
      const path = query === '' ? list : `${list}?${query}`;
      return [
        `/admin/api/${path}${query === '' ? '?' : '&'}limit=50`,
        ...(list === 'revocations' ? [] : [`/admin/${path}`]),
      ];
    }),
  );
  const pages = ['', '/users/ID', '/connected-apps/platform', '/connected-apps/platform/activity', '/policy', '/bin'];
  const calls = [
    'overview',
    'overview?period=month',
    'bin',
    'users/ID',
    'users/ID/timeline',
    'connections/ID.platform',
  ];
  const searchTexts = ['anna', 'a', 'zzzz', user.email, user.id, '0a1b2c3d'];
  const otherPaths = [
    ...pages,
    ...calls.map((path) => `/api/${path}`),
    ...searchTexts.flatMap((text) => [`/search?q=${text}`, `/api/search?q=${text}`]),
  ];
  // Counting the records of each key takes a while.
  const slowPaths = ['/keys', '/api/keys'];
  return [...lists, ...[...otherPaths, ...slowPaths].map((path) => `/admin${path.replace('ID', user.id)}`)];
}
