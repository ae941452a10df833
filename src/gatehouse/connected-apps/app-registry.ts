/** The apps that administrators register: sealed in the storage, and loaded by every process within a second. */

import {
  type ConnectedApp,
  type ConnectedAppRegistration,
  connectedAppSchema,
} from '../../shared/provider/connected-app.ts';
import { keys } from '../../shared/storage/keys.ts';
import { createOpenedRecords } from '../../shared/storage/opened-records.ts';
import { allMembers } from '../../shared/storage/paging.ts';
import { SealError } from '../../shared/storage/sealed.ts';
import type { SealedJson } from '../../shared/storage/sealed-json.ts';
import type { Store } from '../../shared/storage/store.ts';
import type { ReplaceableApps } from './current-apps.ts';
import type { ClientManagement } from './dynamic-registration.ts';
import { isIssuedFor, registrationOf } from './registration.ts';

/** Times in milliseconds since the epoch. */
export interface RegisteredApp {
  app: ConnectedApp;
  version: number;
  createdAt: number;
  changedAt: number;
  /** When the client secret was entered; undefined if there is none. */
  secretSetAt: number | undefined;
  /** When the client secret expires, if the provider says so. */
  secretExpiresAt?: number | undefined;
  /** Deletes the registration at the provider, if Gatehouse created it. */
  management?: ClientManagement | undefined;
}

/** What dynamic registration returns in addition to client ID and secret. */
export type RegistrationExtras = Pick<RegisteredApp, 'secretExpiresAt' | 'management'>;

/** An app as it is sealed and stored. */
type SealedApp = Omit<RegisteredApp, 'version'>;

/** An app that cannot be opened, because its key is lost or its record is damaged. */
interface UnreadableApp {
  id: string;
  unreadable: true;
}

export interface AppRegistry {
  /** Reads all registered apps from the store. */
  list(): Promise<(RegisteredApp | UnreadableApp)[]>;
  /** @throws SealError for an app that cannot be opened */
  find(id: string): Promise<RegisteredApp | undefined>;
  /** True for an app of `CONNECTED_APPS_FILE`, which cannot be changed here. */
  isFromFile(id: string): boolean;
  /** Reads from the storage whether tokens of this app may be used, since changes of other processes arrive late. */
  isRegistered(app: ConnectedApp): Promise<boolean>;
  /** Lists, from memory, when client secrets of registered apps expire, in milliseconds since the epoch. */
  secretEnds(): { app: string; endsAt: number }[];
  /** Replaces the apps of `CONNECTED_APPS_FILE`. An unchanged app must be the same object as before. */
  useFile(newApps: readonly ConnectedApp[]): void;
  /** Registers an app. Returns undefined if the id is taken. */
  create(
    registration: ConnectedAppRegistration,
    clientSecret: string | undefined,
    extras?: RegistrationExtras,
  ): Promise<RegisteredApp | undefined>;
  /** Changes an app. Returns undefined if it is not as `before` any more. @param secret `kept` leaves it unchanged */
  replace(
    before: RegisteredApp,
    registration: ConnectedAppRegistration,
    secret: string | undefined | 'kept',
  ): Promise<RegisteredApp | undefined>;
  /**
   * Creates and replaces several apps in one write. Returns false, with nothing changed, if one was changed or removed
   * since, or the id of a new one is taken.
   */
  putAll(changes: readonly (AppChange & { before: RegisteredApp | undefined })[]): Promise<boolean>;
  /** Removes an app. Returns false if it no longer has this version. */
  remove(id: string, version: number): Promise<boolean>;
  /** True if the stored app cannot be opened. */
  isUnreadable(id: string): Promise<boolean>;
  /** Removes an app that cannot be opened. Returns false for any other. */
  removeUnreadable(id: string): Promise<boolean>;
  close(): Promise<void>;
}

const CHANNEL = 'connected-apps';
/** Changes are polled as well, since a notification can be lost with its connection. */
const POLL_MS = 700;

/** @param parts `apps`: holds the apps of the file, and is updated after every change */
export async function createAppRegistry(parts: {
  store: Store;
  sealedJson: SealedJson;
  apps: ReplaceableApps;
  clock: () => number;
}): Promise<AppRegistry> {
  const { store, sealedJson, apps, clock } = parts;
  let fromFile = apps.list();
  let fileIds = idsOf(fromFile);
  /** The apps of the last load, by the keys of their records. */
  let openedApps = new Map<string, RegisteredApp>();
  /** The change counter and the keys of the last load: a new key may open an app that could not be opened before. */
  let loadedState = '';

  const records = createOpenedRecords<RegisteredApp>({
    store,
    cache: { get: (key) => openedApps.get(key) },
    async open(key, { value, version }) {
      const record = await sealedJson.openOrThrow<SealedApp>(value, key);
      return { ...record, app: Object.freeze(record.app), version };
    },
  });
  const find = (id: string) => records.find(keys.connectedApp(id));

  const isUnreadable = (id: string): Promise<boolean> =>
    find(id).then(
      () => false,
      (error: unknown) => error instanceof SealError || Promise.reject(error),
    );

  const list = async (): Promise<(RegisteredApp | UnreadableApp)[]> => {
    const ids = await allMembers(store, keys.connectedApps);
    const listed = await Promise.all(
      ids.map(async (id) => {
        try {
          return await find(id);
        } catch (error) {
          // An unreadable app must not hide the others.
          if (error instanceof SealError) return { id, unreadable: true as const };
          throw error;
        }
      }),
    );
    return listed.filter((app) => app !== undefined);
  };

  const load = async (): Promise<void> => {
    const changeVersion = (await store.get(keys.connectedAppsChange))?.version ?? 0;
    const state = [changeVersion, ...sealedJson.kids].join(' ');
    if (state === loadedState) return;
    const readable = (await list()).filter((listed): listed is RegisteredApp => 'app' in listed);
    openedApps = new Map(readable.map((registered) => [keys.connectedApp(registered.app.id), registered]));
    replaceApps();
    loadedState = state;
  };

  /** An app of the file replaces a registered one with the same id. */
  const replaceApps = (): void => {
    const registered = [...openedApps.values()].map(({ app }) => app);
    apps.replace([...fromFile, ...registered.filter(({ id }) => !fileIds.has(id))]);
  };

  /** Loads run one at a time, so that an older list never replaces a newer one. */
  let loading: Promise<void> = Promise.resolve();
  const reload = (): Promise<void> => {
    loading = loading.catch(() => undefined).then(load);
    return loading;
  };
  // Failures are ignored: requests report an unavailable store, and the next poll comes soon.
  const reloadInBackground = () => void reload().catch(() => undefined);

  /** Writes and raises the change counter in one write, then reloads and notifies the other processes. */
  const change = async (writes: Parameters<Store['write']>[0]): Promise<boolean> => {
    const counter = { put: keys.connectedAppsChange, value: String(clock()) };
    if (!(await store.write([...writes, counter]))) return false;
    await reload();
    // If this fails, the other processes notice the change at their next poll.
    await store.publish(CHANNEL, '').catch(() => undefined);
    return true;
  };

  const writesOf = async (record: SealedApp, ifVersion: number): Promise<Parameters<Store['write']>[0]> => {
    const { id } = record.app;
    const value = await sealedJson.seal(record, keys.connectedApp(id));
    return [
      { put: keys.connectedApp(id), value, ifVersion },
      { index: keys.connectedApps, add: id, score: record.createdAt },
    ];
  };

  const put = async (record: SealedApp, ifVersion: number): Promise<RegisteredApp | undefined> =>
    (await change(await writesOf(record, ifVersion))) ? find(record.app.id) : undefined;

  const remove = (id: string, version: number): Promise<boolean> =>
    change([
      { delete: keys.connectedApp(id), ifVersion: version },
      { index: keys.connectedApps, remove: id },
    ]);

  const unsubscribe = await store.subscribe(CHANNEL, reloadInBackground);
  await reload();
  const poll = setInterval(reloadInBackground, POLL_MS).unref();

  return {
    list,
    find,
    isFromFile: (id) => fileIds.has(id),
    async isRegistered(app) {
      const current = fromFile.find(({ id }) => id === app.id) ?? (await find(app.id))?.app;
      return current !== undefined && isIssuedFor(registrationOf(app), current);
    },

    secretEnds: () =>
      [...openedApps.values()].flatMap(({ app, secretExpiresAt }) =>
        secretExpiresAt === undefined || fileIds.has(app.id) ? [] : [{ app: app.id, endsAt: secretExpiresAt }],
      ),

    useFile(newApps) {
      fromFile = newApps;
      fileIds = idsOf(newApps);
      replaceApps();
      reloadInBackground();
    },

    create: (registration, clientSecret, extras) =>
      put({ ...newRecord(registration, clientSecret, clock()), ...extras }, 0),

    replace: (before, registration, secret) =>
      put(changedRecord(before, { registration, secret }, clock()), before.version),

    async putAll(changes) {
      if (changes.length === 0) return true;
      const now = clock();
      const writes = changes.map(({ before, ...next }) =>
        before
          ? writesOf(changedRecord(before, next, now), before.version)
          : writesOf(newRecord(next.registration, next.secret, now), 0),
      );
      return change((await Promise.all(writes)).flat());
    },

    remove,
    isUnreadable,

    async removeUnreadable(id) {
      const stored = await store.get(keys.connectedApp(id));
      return stored !== undefined && (await isUnreadable(id)) && remove(id, stored.version);
    },

    async close() {
      clearInterval(poll);
      await unsubscribe();
      await loading.catch(() => undefined);
    },
  };
}

interface AppChange {
  registration: ConnectedAppRegistration;
  /** `kept` leaves it unchanged. */
  secret: string | undefined | 'kept';
}

function newRecord(app: ConnectedAppRegistration, clientSecret: string | undefined, now: number): SealedApp {
  const secretSetAt = clientSecret === undefined ? undefined : now;
  return { app: { ...app, clientSecret }, createdAt: now, changedAt: now, secretSetAt };
}

function changedRecord(
  { version: _, ...before }: RegisteredApp,
  { registration, secret }: AppChange,
  now: number,
): SealedApp {
  const clientSecret = secret === 'kept' ? before.app.clientSecret : secret;
  const setAt = secret === 'kept' ? before.secretSetAt : now;
  return {
    ...before,
    app: { ...unknownOf(before.app), ...registration, clientSecret },
    changedAt: now,
    secretSetAt: clientSecret === undefined ? undefined : setAt,
    secretExpiresAt: secret === 'kept' ? before.secretExpiresAt : undefined,
    // The management data belongs to the client that Gatehouse registered: another client ID was entered by hand.
    management: isIssuedFor(registrationOf(before.app), registration) ? before.management : undefined,
  };
}

const idsOf = (apps: readonly ConnectedApp[]): ReadonlySet<string> => new Set(apps.map(({ id }) => id));

/** Fields of a newer version of Gatehouse, which a change preserves. */
function unknownOf(app: ConnectedApp): object {
  const isKnown = (name: string) => name in connectedAppSchema.shape || name === 'clientSecret';
  return Object.fromEntries(Object.entries(app).filter(([name]) => !isKnown(name)));
}
