/** Stores accounts of users and service accounts, checks passwords, and returns the claims about accounts. */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

export interface Account {
  /** The `sub` of every token. It is the same at every start, so that apps recognise the user again. */
  readonly id: string;
  readonly login: string;
  readonly name: string;
  readonly givenName: string;
  readonly familyName: string;
  readonly groups: readonly string[];
  /** A service account holds API tokens and cannot sign in. */
  readonly kind: 'person' | 'service';
  /** The secret of the second factor in base32; undefined for an account without one. */
  readonly totpSecret?: string;
  /** Addresses and CIDRs from which sign-in is allowed. An empty list allows every address. */
  readonly networks: readonly string[];
  /** Whether tokens may also be used only from these networks. */
  readonly restrictTokens: boolean;
  readonly disabled: boolean;
}

export interface NewAccount {
  /** Default: derived from the login. */
  id?: string;
  login: string;
  name: string;
  groups?: readonly string[] | undefined;
  kind?: Account['kind'] | undefined;
  totpSecret?: string | undefined;
  networks?: readonly string[] | undefined;
  restrictTokens?: boolean | undefined;
  /** Default: the password of the built-in accounts. */
  password?: string | undefined;
}

export type AccountChanges = Pick<NewAccount, 'groups' | 'totpSecret' | 'networks' | 'restrictTokens' | 'password'> & {
  name?: string;
  disabled?: boolean;
};

export interface Accounts {
  /** The shared password, for every account without a password of its own. */
  readonly password: string;
  readonly all: readonly Account[];
  byId(id: string): Account | undefined;
  byLogin(login: string): Account | undefined;
  hasOwnPassword(id: string): boolean;
  /** Returns the account if login and password match. Logins ignore case and surrounding spaces. */
  signIn(login: string, password: string): Account | undefined;
  /** Adds an account whose login does not exist yet. */
  add(account: NewAccount): Account;
  change(id: string, changes: AccountChanges): void;
}

const PASSWORD = 'gatehouse-demo';
export const ADMIN_GROUP = 'gatehouse-admins';
/** The secret is the same at every start, so that an authenticator app must be set up only once. */
export const ADMIN_TOTP_SECRET = 'SANDBOXADMIN2345SANDBOXADMIN2345';

const BUILT_IN: readonly NewAccount[] = [
  { id: 'sbx-00u1', login: 'user@example.test', name: 'Uma Okafor' },
  { id: 'sbx-00u2', login: 'second@example.test', name: 'Sven Lindqvist' },
  {
    id: 'sbx-00u3',
    login: 'admin@example.test',
    name: 'Ada Moreau',
    groups: [ADMIN_GROUP],
    totpSecret: ADMIN_TOTP_SECRET,
  },
];

/** @param parts `more`: added to the built-in accounts; an account with the same login replaces the built-in one */
export function createAccounts(parts: { builtIn?: boolean; more?: readonly NewAccount[] } = {}): Accounts {
  const accounts = new Map<string, Account>();
  const ownPasswords = new Map<string, { salt: string; digest: Buffer }>();
  const byLogin = (login: string) => [...accounts.values()].find((account) => account.login === normalized(login));
  const setPassword = (id: string, password: string | undefined) => {
    const salt = randomBytes(16).toString('hex');
    if (password) ownPasswords.set(id, { salt, digest: digestOf(salt, password) });
  };

  function add(newAccount: NewAccount): Account {
    const account = accountOf(newAccount);
    accounts.set(account.id, account);
    setPassword(account.id, newAccount.password);
    return account;
  }
  for (const account of parts.builtIn === false ? [] : BUILT_IN) add(account);
  for (const account of parts.more ?? []) add({ ...idOf(byLogin(account.login)), ...account });

  return {
    password: PASSWORD,
    get all() {
      return [...accounts.values()];
    },
    byId: (id) => accounts.get(id),
    byLogin,
    hasOwnPassword: (id) => ownPasswords.has(id),
    signIn(login, password) {
      const account = byLogin(login);
      const ownPassword = account && ownPasswords.get(account.id);
      const { salt, digest } = ownPassword ?? { salt: '', digest: digestOf('', PASSWORD) };
      const isMatch = timingSafeEqual(digestOf(salt, password), digest);
      return isMatch && account?.kind === 'person' && !account.disabled ? account : undefined;
    },
    add,
    change(id, { password, name, ...changes }) {
      const account = accounts.get(id);
      if (account === undefined) return;
      const defined = Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined));
      accounts.set(id, { ...account, ...defined, ...(name ? namesOf(name) : {}) });
      setPassword(id, password);
    },
  };
}

/** Returns all claims about an account. The identity provider selects those of the granted scopes. */
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

function accountOf(account: NewAccount): Account {
  const { id, login, name, groups = [], kind = 'person', totpSecret, networks = [], restrictTokens = false } = account;
  const normalLogin = normalized(login);
  return {
    id: id ?? `sbx-${createHash('sha256').update(normalLogin).digest('hex').slice(0, 10)}`,
    login: normalLogin,
    ...namesOf(name),
    groups: [...groups],
    kind,
    ...(totpSecret ? { totpSecret } : {}),
    networks: [...networks],
    restrictTokens,
    disabled: false,
  };
}

function namesOf(name: string): Pick<Account, 'name' | 'givenName' | 'familyName'> {
  const [givenName = '', ...others] = name.trim().split(/\s+/);
  return { name: name.trim(), givenName, familyName: others.join(' ') };
}

function idOf(account: Account | undefined): { id?: string } {
  return account === undefined ? {} : { id: account.id };
}

function normalized(login: string): string {
  return login.trim().toLowerCase();
}

function digestOf(salt: string, password: string): Buffer {
  return createHash('sha256').update(`${salt}:${password}`).digest();
}
