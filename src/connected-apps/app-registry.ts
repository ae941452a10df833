/** Owns the connected apps that administrators register: sealed in the store, and known to every process within a second. */
import { keys } from '../storage/keys.ts';
import { SealError, type Sealer } from '../storage/sealed.ts';
import type { Store, StoredRecord } from '../storage/store.ts';
import type { LiveAppStore } from './app-store.ts';
import type { ConnectedApp, ConnectedAppRegistration } from './connected-app.ts';

/** Times in milliseconds since the epoch. */
export interface RegisteredApp {
  app: ConnectedApp;
  version: number;
  createdAt: number;
  changedAt: number;
  /** When the client secret was given; undefined where there is none. */
  secretSetAt: number | undefined;
  /** When the provider ends the client secret, where it said so on giving it. */
  secretExpiresAt?: number | undefined;
}

/** What is sealed: the registration, the secret and the times. */
type Kept = Omit<RegisteredApp, 'version'>;

export interface AppRegistry {
  /** As it stands in the store now. An app that cannot be opened any more has only an id. */
  list(): Promise<(RegisteredApp | { id: string; unreadable: true })[]>;
  find(id: string): Promise<RegisteredApp | undefined>;
  /** True for an app of the file, which nobody changes here. */
  isFromFile(id: string): boolean;
  /** Undefined where the id is taken. */
  create(
    registration: ConnectedAppRegistration,
    secret: string | undefined,
    secretExpiresAt?: number,
  ): Promise<RegisteredApp | undefined>;
  /** Undefined where there is no such version any more. @param secret `kept` leaves it as it is */
  replace(
    before: RegisteredApp,
    registration: ConnectedAppRegistration,
    secret: string | undefined | 'kept',
  ): Promise<RegisteredApp | undefined>;
  /** Answers false where there is no such version any more. */
  remove(id: string, version: number): Promise<boolean>;
  /** True where an app is kept that no key opens any more, or that is damaged. */
  isUnreadable(id: string): Promise<boolean>;
  /** Removes such a one. Answers false where it can, or is not there. */
  removeUnreadable(id: string): Promise<boolean>;
  close(): Promise<void>;
}

const CHANNEL = 'connected-apps';
/** A notice may be lost with a connection: what has changed is asked for all the same. */
const POLL_MILLISECONDS = 700;
const MOST_APPS = 1_000;

/** @param parts `apps`: told of every change; begins with what the file holds */
export async function createAppRegistry(parts: {
  store: Store;
  sealer: Sealer;
  apps: LiveAppStore;
  clock: () => number;
}): Promise<AppRegistry> {
  const { store, sealer, apps, clock } = parts;
  const fromFile = apps.list();
  const inFile = new Set(fromFile.map(({ id }) => id));
  let known = new Map<string, RegisteredApp>();
  let seenChange = -1;

  const open = async (id: string, { value, version }: StoredRecord): Promise<RegisteredApp> => {
    const before = known.get(id);
    if (before?.version === version) return before;
    const kept = JSON.parse(await sealer.open(value, keys.connectedApp(id))) as Kept;
    return { ...kept, app: Object.freeze(kept.app), version };
  };

  const find = async (id: string): Promise<RegisteredApp | undefined> => {
    const stored = await store.get(keys.connectedApp(id));
    return stored && open(id, stored);
  };

  const isUnreadable = (id: string): Promise<boolean> =>
    find(id).then(
      () => false,
      (error: unknown) => error instanceof SealError || Promise.reject(error),
    );

  const list = async () => {
    const { items } = await store.page(keys.connectedApps, { limit: MOST_APPS });
    const found = await Promise.all(
      items.map(async ({ member: id }) => {
        try {
          return await find(id);
        } catch (error) {
          // One bad record costs no other app anything.
          if (error instanceof SealError) return { id, unreadable: true as const };
          throw error;
        }
      }),
    );
    return found.filter((one) => one !== undefined);
  };

  const load = async (): Promise<void> => {
    const change = (await store.get(keys.connectedAppsChange))?.version ?? 0;
    if (change === seenChange) return;
    const readable = (await list()).filter((one): one is RegisteredApp => 'app' in one);
    known = new Map(readable.map((one) => [one.app.id, one]));
    // The file comes first: whoever keeps it decides what its ids mean.
    apps.replace([...fromFile, ...readable.map(({ app }) => app).filter(({ id }) => !inFile.has(id))]);
    seenChange = change;
  };

  /** One after the other, so that an older answer never comes over a newer one. */
  let loading: Promise<void> = Promise.resolve();
  const reload = (): Promise<void> => {
    loading = loading.catch(() => undefined).then(load);
    return loading;
  };
  // Requests report a store that is down; the next poll comes soon.
  const quietly = () => void reload().catch(() => undefined);

  /** Counts the change in the same write, and is done once this process knows it and the others are told. */
  const change = async (writes: Parameters<Store['write']>[0]): Promise<boolean> => {
    const counted = { put: keys.connectedAppsChange, value: String(clock()) };
    if (!(await store.write([...writes, counted]))) return false;
    await reload();
    // The others find it by themselves where this fails.
    await store.publish(CHANNEL, '').catch(() => undefined);
    return true;
  };

  const put = async (kept: Kept, ifVersion: number): Promise<RegisteredApp | undefined> => {
    const { id } = kept.app;
    const value = await sealer.seal(JSON.stringify(kept), keys.connectedApp(id));
    const written = await change([
      { put: keys.connectedApp(id), value, ifVersion },
      { index: keys.connectedApps, add: id, score: kept.createdAt },
    ]);
    return written ? find(id) : undefined;
  };

  const removal = (id: string, version: number) =>
    change([
      { delete: keys.connectedApp(id), ifVersion: version },
      { index: keys.connectedApps, remove: id },
    ]);

  const unsubscribe = await store.subscribe(CHANNEL, quietly);
  await reload();
  const poll = setInterval(quietly, POLL_MILLISECONDS).unref();

  return {
    list,
    find,
    isFromFile: (id) => inFile.has(id),

    async create(registration, clientSecret, secretExpiresAt) {
      const now = clock();
      const app = { ...registration, clientSecret };
      const secretSetAt = clientSecret === undefined ? undefined : now;
      return put({ app, createdAt: now, changedAt: now, secretSetAt, secretExpiresAt }, 0);
    },

    async replace(before, registration, secret) {
      const now = clock();
      const clientSecret = secret === 'kept' ? before.app.clientSecret : secret;
      const setAt = secret === 'kept' ? before.secretSetAt : now;
      return put(
        {
          app: { ...registration, clientSecret },
          createdAt: before.createdAt,
          changedAt: now,
          secretSetAt: clientSecret === undefined ? undefined : setAt,
          secretExpiresAt: secret === 'kept' ? before.secretExpiresAt : undefined,
        },
        before.version,
      );
    },

    remove: removal,

    isUnreadable,

    async removeUnreadable(id) {
      const stored = await store.get(keys.connectedApp(id));
      return stored !== undefined && (await isUnreadable(id)) && removal(id, stored.version);
    },

    async close() {
      clearInterval(poll);
      await unsubscribe();
      await loading.catch(() => undefined);
    },
  };
}
