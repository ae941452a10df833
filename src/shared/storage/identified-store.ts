/** The gate before the store: refuses every command once the store is not the one that this process opened, or is unfit. */
import { keys } from './keys.ts';
import { StorageRefused } from './refused.ts';
import { StorageReplaced, StorageUnfit } from './replaced.ts';
import { identityOf } from './schema-version.ts';
import type { Store } from './store.ts';

const WHAT_TO_DO =
  'Bring that one back, and this process goes on. After a restore, restart every Gatehouse process instead.';

/** An empty result of these may mean that the data is lost, so the identity is read first. */
const CONFIRMED: ReadonlySet<string> = new Set(['get', 'getUnless', 'write'] satisfies (keyof Store)[]);

export interface IdentifiedStore {
  store: Store;
  /** The connection is a new one. No command is sent before it is clear that it leads to the same store. */
  reconnected(): void;
}

/**
 * The identity and the settings of the store are checked by the probe (`ready` without bytes) and by the first command after
 * a reconnect, the identity alone by each refresh (`ready` with bytes) and where a record is missing. Every other method is
 * refused from the first check that fails until one by the probe succeeds.
 */
export function identifyStore(parts: {
  store: Store;
  identity: string;
  /** Another server took over, which may lack the last writes before that. */
  onFailover: () => void;
}): IdentifiedStore {
  const { store, identity, onFailover } = parts;
  let refusal: StorageReplaced | StorageUnfit | undefined;
  /** `ready` has found that the database file is gone. */
  let gone: StorageReplaced | undefined;
  let reconnects = 0;
  let confirmedReconnects = 0;
  let confirming: Promise<void> | undefined;
  let started = 0;
  let newest = 0;

  const verify = async (): Promise<void> => {
    started += 1;
    const [turn, seen] = [started, reconnects];
    const found = await findRefusal(store, identity, onFailover);
    // A check that ends after a later one says nothing new.
    if (turn > newest) [newest, refusal, confirmedReconnects] = [turn, found, seen];
    if (found) throw found;
  };

  /** A quick check of the identity alone. @throws StorageReplaced */
  const assertSame = async (): Promise<void> => {
    if (identityOf((await store.get(keys.schema))?.value) === identity) return;
    await verify();
    throw new StorageReplaced('The storage was another one for a moment');
  };

  /** Undefined if commands may be sent. */
  const closed = (): Promise<never> | undefined => {
    const why = refusal ?? gone;
    return why && Promise.reject(copyOf(why));
  };
  const confirm = (): Promise<void> => {
    confirming ??= verify().finally(() => {
      confirming = undefined;
    });
    return confirming;
  };
  const untilOpen = async (): Promise<void> => {
    await closed();
    // Again, if the connection was lost once more meanwhile.
    while (confirmedReconnects !== reconnects) await confirm();
  };

  const gated = (name: string, run: (...parameters: unknown[]) => Promise<unknown>) => {
    const confirmed = async (result: unknown) => {
      if (result === undefined) await assertSame();
      return result;
    };
    const send = (parameters: unknown[]) => {
      const result = run(...parameters);
      return CONFIRMED.has(name) ? result.then(confirmed) : result;
    };
    return (...parameters: unknown[]): Promise<unknown> =>
      closed() ?? (confirmedReconnects === reconnects ? send(parameters) : untilOpen().then(() => send(parameters)));
  };
  const gatedPages = <T>(read: () => AsyncIterable<T>) =>
    async function* () {
      await untilOpen();
      for await (const page of read()) {
        await untilOpen();
        yield page;
      }
    };

  const { close, logIdAt, walk, dump, ready, ...commands } = store;
  return {
    store: {
      // All others, so that a new method of the port cannot be forgotten here.
      ...(Object.fromEntries(
        Object.entries(commands).map(([name, run]) => [name, gated(name, run as Parameters<typeof gated>[1])]),
      ) as typeof commands),
      walk: gatedPages(walk),
      dump: gatedPages(dump),
      async ready(bytes) {
        await (bytes === undefined ? verify() : untilOpen().then(assertSame));
        try {
          await ready(bytes);
          gone = undefined;
        } catch (error) {
          if (error instanceof StorageReplaced) gone = error;
          throw error;
        }
      },
      logIdAt,
      close,
    },
    reconnected() {
      reconnects += 1;
    },
  };
}

/** @throws AppError `storage_unavailable` if the store does not respond */
async function findRefusal(
  store: Store,
  identity: string,
  onFailover: () => void,
): Promise<StorageReplaced | StorageUnfit | undefined> {
  const [schema, admission] = await Promise.allSettled([store.get(keys.schema), store.admit()]);
  if (schema.status === 'rejected') throw schema.reason;
  const found = identityOf(schema.value?.value);
  if (found !== identity) {
    const what = schema.value === undefined ? 'The storage is empty' : 'The storage is another one';
    return new StorageReplaced(`${what}, not the one that this process opened. ${WHAT_TO_DO}`);
  }
  if (admission.status === 'fulfilled') {
    if (admission.value.failedOver) onFailover();
    return undefined;
  }
  const { reason } = admission;
  if (reason instanceof StorageReplaced) return reason;
  if (reason instanceof StorageRefused) return new StorageUnfit(reason.message);
  throw reason;
}

/** An error for each caller, since those who handle it add to it. */
function copyOf(error: StorageReplaced | StorageUnfit): StorageReplaced | StorageUnfit {
  const detail = error.logDetail ?? '';
  return error instanceof StorageReplaced ? new StorageReplaced(detail) : new StorageUnfit(detail);
}
