/** Owns the accounts: who registered, with which plan, and the keys they made, which are kept as hashes. */
import { trustedProxies } from '../http/trusted-proxies.ts';
import { hashOf, keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';
import { isApiKey, keyHint, makeApiKey } from './api-key.ts';
import type { Plan } from './plans.ts';

export interface AccountKey {
  id: string;
  hash: string;
  name: string;
  hint: string;
  /** Addresses and CIDRs that it may be used from; all where there is none. */
  networks: readonly string[];
  /** Milliseconds since the epoch. */
  createdAt: number;
}

export interface Account {
  id: string;
  issuer: string;
  subject: string;
  name?: string | undefined;
  email?: string | undefined;
  createdAt: number;
  /** What was confirmed; it stays as it was agreed when the offer changes. */
  plan?: (Plan & { since: number }) | undefined;
  requested?: (Plan & { at: number }) | undefined;
  keys: readonly AccountKey[];
}

/** What a key opens. */
export interface KeyAccess {
  accountId: string;
  plan: Plan | undefined;
  allows(address: string): boolean;
}

export type MadeKey = { key: string; account: Account; problem?: never } | { key?: never; problem: 'too_many_keys' };

export interface Accounts {
  /** Makes the account of this person, or brings its name and address up to date. */
  register(person: Pick<Account, 'issuer' | 'subject' | 'name' | 'email'>): Promise<Account>;
  find(id: string): Promise<Account | undefined>;
  requestPlan(id: string, plan: Plan): Promise<Account | undefined>;
  /** For the operator. Answers undefined where nothing was asked for. */
  confirmPlan(id: string): Promise<Account | undefined>;
  /** For the operator: the plan and the wish for one end; keys stay and are refused. */
  endPlan(id: string): Promise<Account | undefined>;
  /** Accounts that wait for the operator, the one that waits longest first. */
  requests(): Promise<Account[]>;
  /** The key itself is in this answer and nowhere else. */
  makeKey(id: string, key: Pick<AccountKey, 'name' | 'networks'>): Promise<MadeKey | undefined>;
  setNetworks(id: string, keyId: string, networks: readonly string[]): Promise<Account | undefined>;
  revokeKey(id: string, keyId: string): Promise<Account | undefined>;
  /** At once where it was asked for within the last second: a key that is revoked is good for no longer. */
  accessOf(key: string): KeyAccess | undefined | Promise<KeyAccess | undefined>;
}

export const MOST_KEYS = 20;
const ACCESS_MILLISECONDS = 1_000;
const MOST_REMEMBERED = 10_000;
const MOST_REQUESTS = 1_000;

/** @param parts `clock`: milliseconds since the epoch */
export function createAccounts(parts: {
  store: Store;
  clock: () => number;
  randomBytes: (size: number) => Buffer;
}): Accounts {
  const { store, clock, randomBytes } = parts;
  const remembered = new Map<string, { access: KeyAccess; at: number }>();
  const running = new Map<string, Promise<KeyAccess | undefined>>();

  const load = async (id: string) => {
    const stored = await store.get(keys.planAccount(id));
    return stored && { account: JSON.parse(stored.value) as Account, version: stored.version };
  };

  const save = (account: Account, ifVersion: number) =>
    store.write([{ put: keys.planAccount(account.id), value: JSON.stringify(account), ifVersion }]);

  /** Whoever loses the race reads again. `change` answers undefined for what cannot be done. */
  const change = async (id: string, apply: (account: Account) => Account | undefined): Promise<Account | undefined> => {
    for (;;) {
      const known = await load(id);
      const changed = known && apply(known.account);
      if (!known || !changed) return undefined;
      if (await save(changed, known.version)) return changed;
    }
  };

  const find = async (id: string) => (await load(id))?.account;

  const findAccess = async (key: string): Promise<KeyAccess | undefined> => {
    const hash = hashOf(key);
    const pointer = await store.get(keys.apiKey(hash));
    const account = pointer && (await find(pointer.value));
    const held = account?.keys.find((one) => one.hash === hash);
    if (!account || !held) return undefined;
    const isListed = trustedProxies(held.networks);
    return {
      accountId: account.id,
      plan: account.plan,
      allows: (address) => held.networks.length === 0 || isListed(address),
    };
  };

  const lookUpAccess = async (key: string): Promise<KeyAccess | undefined> => {
    const access = await findAccess(key);
    if (remembered.size >= MOST_REMEMBERED) remembered.clear();
    if (access) remembered.set(key, { access, at: performance.now() });
    else remembered.delete(key);
    return access;
  };

  return {
    find,

    async register(person) {
      const id = accountIdOf(person.issuer, person.subject);
      for (;;) {
        const known = await load(id);
        const account = known ? { ...known.account, ...person } : { ...person, id, createdAt: clock(), keys: [] };
        if (await save(account, known?.version ?? 0)) return account;
      }
    },

    async requestPlan(id, plan) {
      // Listed first: a wish that no list shows would never be heard. Whoever is listed without one is passed over.
      await store.write([{ index: keys.planRequests, add: id, score: clock() }]);
      return change(id, (account) => ({ ...account, requested: { ...plan, at: clock() } }));
    },

    async confirmPlan(id) {
      const changed = await change(id, ({ requested, ...account }) => {
        if (!requested) return undefined;
        const { name, monthlyRequests } = requested;
        return { ...account, plan: { name, monthlyRequests, since: clock() } };
      });
      await store.write([{ index: keys.planRequests, remove: id }]);
      return changed;
    },

    async endPlan(id) {
      const changed = await change(id, ({ plan: _plan, requested: _requested, ...account }) => account);
      await store.write([{ index: keys.planRequests, remove: id }]);
      return changed;
    },

    async requests() {
      const { items } = await store.page(keys.planRequests, { limit: MOST_REQUESTS });
      const accounts = await Promise.all(items.map(({ member }) => find(member)));
      return accounts.filter((account) => account?.requested !== undefined) as Account[];
    },

    async makeKey(id, { name, networks }) {
      const key = makeApiKey(randomBytes(32));
      const hash = hashOf(key);
      const made = { id: randomBytes(9).toString('base64url'), hash, name, hint: keyHint(key), networks };
      // It opens nothing until the account knows it.
      await store.write([{ put: keys.apiKey(hash), value: id }]);
      let full = false;
      const account = await change(id, (known) => {
        full = known.keys.length >= MOST_KEYS;
        return full ? undefined : { ...known, keys: [...known.keys, { ...made, createdAt: clock() }] };
      });
      if (account) return { key, account };
      await store.write([{ delete: keys.apiKey(hash) }]);
      return full ? { problem: 'too_many_keys' } : undefined;
    },

    setNetworks: (id, keyId, networks) =>
      change(id, (account) =>
        account.keys.some((key) => key.id === keyId)
          ? { ...account, keys: account.keys.map((key) => (key.id === keyId ? { ...key, networks } : key)) }
          : undefined,
      ),

    async revokeKey(id, keyId) {
      let hash: string | undefined;
      const account = await change(id, (known) => {
        hash = known.keys.find((key) => key.id === keyId)?.hash;
        return hash === undefined ? undefined : { ...known, keys: known.keys.filter((key) => key.id !== keyId) };
      });
      if (account && hash !== undefined) await store.write([{ delete: keys.apiKey(hash) }]);
      return account;
    },

    accessOf(key) {
      if (!isApiKey(key)) return undefined;
      const known = remembered.get(key);
      const isFresh = known !== undefined && performance.now() - known.at < ACCESS_MILLISECONDS;
      if (isFresh) return known.access;
      const lookUp = running.get(key) ?? lookUpAccess(key).finally(() => running.delete(key));
      running.set(key, lookUp);
      return lookUp;
    },
  };
}

/** One id for each issuer and subject, never by e-mail address. */
function accountIdOf(issuer: string, subject: string): string {
  return `a${hashOf(JSON.stringify([issuer, subject])).slice(0, 22)}`;
}
