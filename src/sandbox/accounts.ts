/** Owns the people of the sandbox: who they are, how they sign in, and what is said about them to apps. */
import { createHash, timingSafeEqual } from 'node:crypto';

export interface Account {
  /** The `sub` of every token; the same at every start, so that what an app keeps about a person stays true. */
  readonly id: string;
  readonly login: string;
  readonly name: string;
  readonly givenName: string;
  readonly familyName: string;
  readonly groups: readonly string[];
}

export interface Accounts {
  readonly password: string;
  readonly all: readonly Account[];
  byId(id: string): Account | undefined;
  /** The account when login and password fit; logins are compared without regard to case and outer blanks. */
  signIn(login: string, password: string): Account | undefined;
}

const PASSWORD = 'gatehouse-demo';

const ACCOUNTS: readonly Account[] = [
  account('sbx-00u1', 'user@example.test', 'Uma', 'Okafor', []),
  account('sbx-00u2', 'second@example.test', 'Sven', 'Lindqvist', []),
  account('sbx-00u3', 'admin@example.test', 'Ada', 'Moreau', ['gatehouse-admins']),
];

function account(id: string, login: string, givenName: string, familyName: string, groups: string[]): Account {
  return { id, login, name: `${givenName} ${familyName}`, givenName, familyName, groups };
}

export function createAccounts(): Accounts {
  return {
    password: PASSWORD,
    all: ACCOUNTS,
    byId: (id) => ACCOUNTS.find((one) => one.id === id),
    signIn(login, password) {
      const wanted = login.trim().toLowerCase();
      const found = ACCOUNTS.find((one) => one.login === wanted);
      return same(password, PASSWORD) ? found : undefined;
    },
  };
}

/** Every claim there is about an account; the identity provider cuts them down to the granted scopes. */
export function claimsOf(account: Account): Record<string, unknown> {
  return {
    sub: account.id,
    name: account.name,
    given_name: account.givenName,
    family_name: account.familyName,
    preferred_username: account.login,
    email: account.login,
    email_verified: true,
    groups: account.groups,
  };
}

function same(a: string, b: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}
