/** The users in the demo's history. Each has an account at the sandbox, with the shared password. */
import type { Seed } from '../sandbox/seed.ts';
import { DAYS } from './timeline.ts';

export interface Person {
  name: string;
  login: string;
  browser: string;
  address: string;
  /** Average number of sign-ins on a working day. */
  visits: number;
  /** The first visit, in days before the start of the demo. */
  since: number;
  /** Whether the person has also connected the second app. */
  team: boolean;
}

const OFFICE = '203.0.113.24';
const BRANCH = '198.51.100.7';

const person = (
  name: string,
  browser: string,
  address: string,
  visits: number,
  since: number,
  team = false,
): Person => ({
  name,
  login: `${name.toLowerCase().replaceAll(' ', '.')}@example.test`,
  browser,
  address,
  visits,
  since,
  team,
});

/** The person who receives a connect link for the second app. */
export const QUENTIN = person('Quentin Dubois', 'Microsoft Edge on Windows', BRANCH, 1.1, 3);

export const PEOPLE: readonly Person[] = [
  person('Amara Obi', 'Chrome on Windows', OFFICE, 2.2, 30, true),
  person('Benoit Lefevre', 'Firefox on Linux', OFFICE, 1.8, 30, true),
  person('Chiara Romano', 'Safari on macOS', BRANCH, 2.1, 30, true),
  person('Daniel Weiss', 'Microsoft Edge on Windows', OFFICE, 1.4, 30, true),
  person('Elif Kaya', 'Chrome on macOS', BRANCH, 1.9, 29),
  person('Freya Nilsson', 'Safari on iOS', '192.0.2.61', 1.0, 29, true),
  person('Grace Adeyemi', 'Chrome on Android', '192.0.2.118', 1.1, 28),
  person('Hiro Tanaka', 'Chrome on Windows', OFFICE, 1.6, 28, true),
  person('Ines Carvalho', 'Firefox on Windows', OFFICE, 1.3, 27),
  person('Jakub Zielinski', 'Microsoft Edge on Windows', OFFICE, 1.8, 24, true),
  person('Keiko Mori', 'Safari on macOS', BRANCH, 1.4, 23),
  person('Liam Byrne', 'Chrome on Linux', '192.0.2.77', 1.1, 20, true),
  person('Mina Rahimi', 'Chrome on Windows', OFFICE, 1.9, 17),
  person('Noor Haddad', 'Firefox on macOS', BRANCH, 1.6, 13, true),
  person('Oskar Lund', 'Chrome on Windows', OFFICE, 1.3, 10),
  person('Priya Nair', 'Safari on iOS', '192.0.2.130', 1.4, 7, true),
  QUENTIN,
  person('Rosa Delgado', 'Chrome on macOS', OFFICE, 1.6, 1, true),
];

/** The built-in administrator. Her first visit is a day before the other users', because she registers their app. */
export const ADMINISTRATOR: Person = {
  ...person('Ada Moreau', 'Firefox on Linux', OFFICE, 1.1, DAYS + 1),
  login: 'admin@example.test',
};

/** A person who has left the company. The user is disabled, and the last sign-in was refused. */
export const DISABLED = person('Tomas Novak', 'Chrome on Windows', '192.0.2.201', 1.3, 30);

/** The back-end service whose platform API token is a service account of Gatehouse. */
export const REPORTS = {
  login: 'reports@example.test',
  name: 'Nightly reports',
  token: `sbxt_${'demo'.repeat(8)}`,
};

/** The id of a thread that commands of the tour name. */
export const DEMO_THREAD = 'LAUNCHQA';

export const SEED: Seed = {
  builtInUsers: true,
  users: [
    ...[...PEOPLE, DISABLED].map(({ login, name }) => ({ login, name })),
    { login: REPORTS.login, name: REPORTS.name, kind: 'service' as const },
  ],
  apps: [],
  tokens: [{ name: REPORTS.name, user: REPORTS.login, scopes: ['platform_read_only' as const], token: REPORTS.token }],
  threads: [
    {
      id: DEMO_THREAD,
      author: 'user@example.test',
      title: 'Launch: questions and answers',
      html: '<p><b>Uma Okafor</b>: Please ask here, so that everybody sees the answers.</p>',
      sharedWith: ['second@example.test', ADMINISTRATOR.login],
    },
  ],
};
