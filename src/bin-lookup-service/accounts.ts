/** Stores accounts: the registered user, their plan, and the hashes of their API keys. */
import { isAllowedFrom } from '../shared/config/networks.ts';
import type { Events } from '../shared/observability/events.ts';
import { remembered } from '../shared/remembered.ts';
import { hashOf, keys } from '../shared/storage/keys.ts';
import { allPages } from '../shared/storage/paging.ts';
import type { Store } from '../shared/storage/store.ts';
import { updateRecord } from '../shared/storage/update-record.ts';
import { HOUR_MS } from '../shared/time.ts';
import { createApiKey, isApiKey, keyHint } from './api-key.ts';
import type { Plan } from './plans.ts';

export interface AccountKey {
  id: string;
  hash: string;
  name: string;
  hint: string;
  /** Addresses and CIDRs from which the key may be used. An empty list allows every address. */
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
  /** A copy of the plan as it was confirmed. Later changes of `PLANS` do not affect it. */
  plan?: (Plan & { since: number }) | undefined;
  /** The ordered plan. `order`: a unique id, so that a payment confirms only that order. */
  requested?: (Plan & { at: number; order: string }) | undefined;
  /** The latest confirmed orders, to recognise a repeated confirmation. `plan`: the name of the plan. */
  confirmed?: readonly { order: string; plan: string; since: number }[] | undefined;
  keys: readonly AccountKey[];
}

/** The identity of a user at the provider. */
export type Identity = Pick<Account, 'issuer' | 'subject' | 'name' | 'email'>;

/** The account of a key with its plan, and the addresses from which the key may be used. */
export interface KeyAccess {
  accountId: string;
  plan: Plan | undefined;
  allows(address: string): boolean;
}

export type CreatedKey = { key: string; account: Account; problem?: never } | { key?: never; problem: 'too_many_keys' };

export interface Accounts {
  /** Creates the user's account, or updates its name and e-mail address. */
  register(identity: Identity): Promise<Account>;
  find(id: string): Promise<Account | undefined>;
  requestPlan(id: string, plan: Plan): Promise<Account | undefined>;
  /**
   * Confirms the requested plan. Returns undefined if no plan is requested, or if the requested order is not `paid`.
   * @param paid the order that was paid for, and its plan; default: the requested order
   */
  confirmPlan(id: string, paid?: { order: string; plan: string }): Promise<Account | undefined>;
  /** Removes the plan and any request for one, for the operator. The keys remain, but are refused. */
  endPlan(id: string): Promise<Account | undefined>;
  /** Returns the accounts that have requested a plan, oldest request first. */
  requests(): Promise<Account[]>;
  /** Creates a key. Only this result contains the key itself. */
  createKey(id: string, key: Pick<AccountKey, 'name' | 'networks'>): Promise<CreatedKey | undefined>;
  setNetworks(id: string, keyId: string, networks: readonly string[]): Promise<Account | undefined>;
  revokeKey(id: string, keyId: string): Promise<Account | undefined>;
  /** Returns synchronously if the key was checked within the last second. A revoked key works for at most that long. */
  accessOf(key: string): KeyAccess | undefined | Promise<KeyAccess | undefined>;
}

export const MAX_KEYS = 20;
const MAX_CONFIRMED = 20;
/** Less than a second, so that a revoked key is refused within a second. */
const ACCESS_CACHE_MS = 900;
const MAX_CACHED = 10_000;

/** @param parts `clock`: milliseconds since the epoch */
export function createAccounts(parts: {
  store: Store;
  clock: () => number;
  randomBytes: (size: number) => Buffer;
  planConfirmed?: Events['planConfirmed'];
}): Accounts {
  const { store, clock, randomBytes, planConfirmed } = parts;
  const accesses = remembered<{ access: KeyAccess; at: number }>(MAX_CACHED);
  const runningLookUps = new Map<string, Promise<KeyAccess | undefined>>();

  const find = async (id: string): Promise<Account | undefined> => {
    const stored = await store.get(keys.planAccount(id));
    return stored && (JSON.parse(stored.value) as Account);
  };

  /** Changes the stored account. @param apply returns undefined to refuse the change */
  const change = async (id: string, apply: (account: Account) => Account | undefined): Promise<Account | undefined> =>
    (await updateRecord<Account>(store, keys.planAccount(id), (stored) => stored && apply(stored)))?.after;

  const unlist = async (id: string, order: string | undefined) => {
    if (order !== undefined) await store.write([{ index: keys.planRequests, remove: memberOf(id, order) }]);
  };

  const findAccess = async (key: string): Promise<KeyAccess | undefined> => {
    const hash = hashOf(key);
    const pointer = await store.get(keys.apiKey(hash));
    const account = pointer && (await find(pointer.value));
    const storedKey = account?.keys.find((key) => key.hash === hash);
    if (!account || !storedKey) return undefined;
    return {
      accountId: account.id,
      plan: account.plan,
      allows: (address) => isAllowedFrom(address, storedKey.networks),
    };
  };

  const lookUpAccess = async (key: string): Promise<KeyAccess | undefined> => {
    const access = await findAccess(key);
    if (access) accesses.set(key, { access, at: performance.now() });
    else accesses.delete(key);
    return access;
  };

  return {
    find,

    async register(identity) {
      const id = accountIdOf(identity.issuer, identity.subject);
      const withIdentity = (stored: Account = { ...identity, id, createdAt: clock(), keys: [] }): Account => ({
        ...stored,
        ...identity,
      });
      return (await updateRecord(store, keys.planAccount(id), withIdentity)).after;
    },

    async requestPlan(id, plan) {
      const order = `o${randomBytes(9).toString('base64url')}`;
      // List the order first, so that it is not lost. `requests` skips orders that their accounts do not have.
      await store.write([{ index: keys.planRequests, add: memberOf(id, order), score: clock() }]);
      let replacedOrder: string | undefined;
      const changed = await change(id, (account) => {
        replacedOrder = account.requested?.order;
        return { ...account, requested: { ...plan, order, at: clock() } };
      });
      await unlist(id, replacedOrder);
      return changed;
    },

    async confirmPlan(id, paid) {
      const changed = await change(id, ({ requested, ...account }) => {
        if (!requested || (paid && (requested.order !== paid.order || requested.name !== paid.plan))) return undefined;
        const { at: _at, order, ...plan } = requested;
        const since = clock();
        const confirmed = [...(account.confirmed ?? []), { order, plan: plan.name, since }].slice(-MAX_CONFIRMED);
        return { ...account, plan: { ...plan, since }, confirmed };
      });
      const latest = changed?.confirmed?.at(-1);
      if (!latest) return undefined;
      planConfirmed?.({ account: id, plan: latest.plan, order: latest.order });
      await unlist(id, latest.order);
      return changed;
    },

    async endPlan(id) {
      let removedOrder: string | undefined;
      const changed = await change(id, ({ plan: _plan, requested, ...account }) => {
        removedOrder = requested?.order;
        return account;
      });
      await unlist(id, removedOrder);
      return changed;
    },

    async requests() {
      const pages = await Array.fromAsync(allPages((options) => store.page(keys.planRequests, options), 500));
      const listed = pages.flat().map(async ({ member, score }) => {
        const [id = '', order] = member.split(' ');
        const account = await find(id);
        if (account?.requested && account.requested.order === order) return [account];
        // Either a removal failed, or the order is still being stored in the account.
        if (score < clock() - HOUR_MS) await store.write([{ index: keys.planRequests, remove: member }]);
        return [];
      });
      return (await Promise.all(listed)).flat();
    },

    async createKey(id, { name, networks }) {
      const key = createApiKey(randomBytes(32));
      const hash = hashOf(key);
      const newKey = { id: randomBytes(9).toString('base64url'), hash, name, hint: keyHint(key), networks };
      // The key does not work until the account lists it.
      await store.write([{ put: keys.apiKey(hash), value: id }]);
      let isFull = false;
      const account = await change(id, (stored) => {
        isFull = stored.keys.length >= MAX_KEYS;
        return isFull ? undefined : { ...stored, keys: [...stored.keys, { ...newKey, createdAt: clock() }] };
      });
      if (account) return { key, account };
      await store.write([{ delete: keys.apiKey(hash) }]);
      return isFull ? { problem: 'too_many_keys' } : undefined;
    },

    setNetworks: (id, keyId, networks) =>
      change(id, (account) =>
        account.keys.some((key) => key.id === keyId)
          ? { ...account, keys: account.keys.map((key) => (key.id === keyId ? { ...key, networks } : key)) }
          : undefined,
      ),

    async revokeKey(id, keyId) {
      let hash: string | undefined;
      const account = await change(id, (stored) => {
        hash = stored.keys.find((key) => key.id === keyId)?.hash;
        return hash === undefined ? undefined : { ...stored, keys: stored.keys.filter((key) => key.id !== keyId) };
      });
      if (account && hash !== undefined) await store.write([{ delete: keys.apiKey(hash) }]);
      return account;
    },

    accessOf(key) {
      if (!isApiKey(key)) return undefined;
      const cached = accesses.get(key);
      const isFresh = cached !== undefined && performance.now() - cached.at < ACCESS_CACHE_MS;
      if (isFresh) return cached.access;
      const lookUp = runningLookUps.get(key) ?? lookUpAccess(key).finally(() => runningLookUps.delete(key));
      runningLookUps.set(key, lookUp);
      return lookUp;
    },
  };
}

/**
 * Returns the member of the index for this order. A later order has another member, which is not removed with this one.
 */
function memberOf(id: string, order: string): string {
  return `${id} ${order}`;
}

/** Derives the id from the identity, without the e-mail address, which can change. */
function accountIdOf(issuer: string, subject: string): string {
  return `a${hashOf(JSON.stringify([issuer, subject])).slice(0, 22)}`;
}
