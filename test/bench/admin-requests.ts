/** The requests of the benchmark of the administration. */
import { encodeCursor } from '../../src/shared/storage/paging.ts';
import { DAY_MS, isoTime } from '../../src/shared/time.ts';
import { personOf } from './large-storage.ts';

/** For each list: the first page, a page in the middle, each filter, and searches with many results, one or none. */
export function listRequests(users: number): string[] {
  const someone = personOf(Math.floor(users / 2 / 10) * 10);
  const middle = encodeCursor({ score: Date.now() - 15 * DAY_MS, member: '' });
  const searches = ['anna', 'smith', 'a', 'idp|', 'zzzz', someone.email, someone.id].map(
    (q) => `q=${encodeURIComponent(q)}`,
  );
  // The search finds the same users by name and by e-mail address, and must list each only once.
  const amongAddresses = `q=a&after=${encodeCursor({ score: 0, member: 'anna.' })}`;
  const queries: Record<string, readonly string[]> = {
    users: ['', `after=${middle}`, ...searches, amongAddresses],
    sessions: ['', `after=${middle}`, `user=${someone.id}`, ...searches],
    connections: [
      '',
      `after=${middle}`,
      `user=${someone.id}`,
      ...searches,
      'q=a&app=calendar',
      'q=anna&health=unverified',
      'app=platform',
      `app=calendar&after=${middle}`,
      'app=none',
      'health=reconnect_needed',
      'health=unverified',
      'app=calendar&health=unverified',
      'app=none&health=reconnect_needed',
      'scopes=missing',
    ],
    revocations: [''],
    'sign-ins': [
      '',
      `after=${middle}`,
      'failed=true',
      `q=${personOf(users - 10).email}`,
      'q=nobody@example.test',
      'q=00000000',
    ],
    audit: [
      '',
      `after=${middle}`,
      'event=sign_in.failed',
      `who=${someone.id}`,
      `whom=${someone.id}`,
      'whom=platform',
      'event=sign_in.failed&whom=platform',
      `event=sign_in.failed&who=${someone.id}`,
      'text=anna',
      'text=zzzz',
      `from=${isoTime(Date.now() - 16 * DAY_MS)}&to=${isoTime(Date.now() - 15 * DAY_MS)}`,
    ],
    'connected-apps': ['', 'q=cal'],
    'relay-tokens': ['', 'q=service-1', 'q=zzzz'],
    'connect-links': ['', 'q=zzzz'],
    'service-accounts': ['', 'q=zzzz'],
    webhooks: ['', 'q=hooks-1', 'q=zzzz'],
    'admin-tokens': ['', 'q=zzzz'],
  };
  const lists = Object.entries(queries).flatMap(([list, each]) =>
    each.flatMap((query) => {
      const place = query === '' ? list : `${list}?${query}`;
      return [
        `/admin/api/${place}${query === '' ? '?' : '&'}limit=50`,
        ...(list === 'revocations' ? [] : [`/admin/${place}`]),
      ];
    }),
  );
  const pages = ['', '/users/ID', '/connected-apps/platform', '/policy', '/bin'];
  const calls = ['overview', 'overview?range=month', 'bin', 'users/ID', 'users/ID/timeline', 'connections/ID.platform'];
  const searched = ['anna', 'a', 'zzzz', someone.email, someone.id, '0a1b2c3d'];
  const single = [
    ...pages,
    ...calls.map((path) => `/api/${path}`),
    ...searched.flatMap((q) => [`/search?q=${q}`, `/api/search?q=${q}`]),
  ];
  // Counting the records of each key takes a while.
  const last = ['/keys', '/api/keys'];
  return [...lists, ...[...single, ...last].map((path) => `/admin${path.replace('ID', someone.id)}`)];
}
