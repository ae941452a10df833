/** Refuses every command once the store is not the one that this process opened, or its settings are unfit. */
import { keys } from './keys.ts';
import { StorageRefused } from './refused.ts';
import { StorageReplaced, StorageUnfit } from './replaced.ts';
import { identityOf } from './schema-version.ts';
import type { Store } from './store.ts';

const REMEDY =
  'Bring that storage back, and this process continues. After a restore, restart every Gatehouse process instead.';

/**
 * An undefined result of these methods may mean that the data is lost, so the identity is checked before it is
 * returned.
 */
const CONFIRMED_METHODS: ReadonlySet<string> = new Set(['get', 'getIfChanged', 'write'] satisfies (keyof Store)[]);

export interface IdentifiedStore {
  store: Store;
  /** Reports a new connection. No command is sent on it before the identity of the store is checked. */
  reconnected(): void;
}

/**
 * The probe (`ready` without bytes) and the first command after a reconnect check the identity and the settings of the
 * store. Each refresh (`ready` with bytes) and each missing record check only the identity. After a failed check, all
 * other methods are refused until a check by the probe succeeds.
 */
export function identifyStore(parts: {
  store: Store;
  identity: string;
  /** Called when another server has taken over. It may lack the last writes. */
  onFailover: () => void;
}): IdentifiedStore {
  const { store, identity, onFailover } = parts;
  let refusal: StorageReplaced | StorageUnfit | undefined;
  /** The error of `ready` while the database file is gone. */
  let fileGoneError: StorageReplaced | undefined;
  let reconnects = 0;
  let confirmedReconnects = 0;
  let confirmation: Promise<void> | undefined;
  let lastStartedCheck = 0;
  let lastAppliedCheck = 0;

  const verify = async (): Promise<void> => {
    lastStartedCheck += 1;
    const [checkNumber, checkedReconnects] = [lastStartedCheck, reconnects];
    const result = await findRefusal(store, identity, onFailover);
    // The result of a later check that has already ended is newer.
    if (checkNumber > lastAppliedCheck) {
      [lastAppliedCheck, refusal, confirmedReconnects] = [checkNumber, result, checkedReconnects];
    }
    if (result) throw result;
  };

  /** Checks only the identity of the store, which is quick. @throws StorageReplaced */
  const assertSame = async (): Promise<void> => {
    if (identityOf((await store.get(keys.schema))?.value) === identity) return;
    await verify();
    throw new StorageReplaced('For a moment, another storage responded');
  };

  /** Returns a rejected promise while commands are refused, and undefined while they may be sent. */
  const rejectIfRefused = (): Promise<never> | undefined => {
    const reason = refusal ?? fileGoneError;
    return reason && Promise.reject(copyOf(reason));
  };
  const confirmReconnect = (): Promise<void> => {
    confirmation ??= verify().finally(() => {
      confirmation = undefined;
    });
    return confirmation;
  };
  const untilOpen = async (): Promise<void> => {
    await rejectIfRefused();
    // Repeated if the connection is lost again during the check.
    while (confirmedReconnects !== reconnects) await confirmReconnect();
  };

  const gate = (name: string, run: (...parameters: unknown[]) => Promise<unknown>) => {
    const confirmResult = async (result: unknown) => {
      if (result === undefined) await assertSame();
      return result;
    };
    const send = (parameters: unknown[]) => {
      const result = run(...parameters);
      return CONFIRMED_METHODS.has(name) ? result.then(confirmResult) : result;
    };
    return (...parameters: unknown[]): Promise<unknown> =>
      rejectIfRefused() ??
      (confirmedReconnects === reconnects ? send(parameters) : untilOpen().then(() => send(parameters)));
  };
  const gatePages = <T>(read: () => AsyncIterable<T>) =>
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
      // All other methods, so that a new method of the port cannot be forgotten here.
      ...(Object.fromEntries(
        Object.entries(commands).map(([name, run]) => [name, gate(name, run as Parameters<typeof gate>[1])]),
      ) as typeof commands),
      walk: gatePages(walk),
      dump: gatePages(dump),
      async ready(bytes) {
        await (bytes === undefined ? verify() : untilOpen().then(assertSame));
        try {
          await ready(bytes);
          fileGoneError = undefined;
        } catch (error) {
          if (error instanceof StorageReplaced) fileGoneError = error;
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
  if (identityOf(schema.value?.value) !== identity) {
    const state = schema.value === undefined ? 'The storage is empty' : 'The storage is another one';
    return new StorageReplaced(`${state}, not the one that this process opened. ${REMEDY}`);
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

/** Returns a separate error for each caller, because error handlers add details to it. */
function copyOf(error: StorageReplaced | StorageUnfit): StorageReplaced | StorageUnfit {
  const detail = error.logDetail ?? '';
  return error instanceof StorageReplaced ? new StorageReplaced(detail) : new StorageUnfit(detail);
}
