/** Values of records, sealed whole: an attacker who can write to the store cannot read, change or exchange them (R105). */
import { kindOf } from './keys.ts';
import { SealError, type Sealer, type SealReason } from './sealed.ts';

/** What every module that keeps secrets in the store seals and opens them with. `key`: of the record that holds the value. */
export interface SealedJson {
  /** The ids of all keys that open. They can change while the process runs. */
  readonly kids: readonly string[];
  seal(value: unknown, key: string): Promise<string>;
  /** Undefined if the record was not sealed for this key, or was changed since. It then counts as absent. */
  open<T>(record: string, key: string): Promise<T | undefined>;
  /** For a record that does not count as absent. @throws SealError where `open` returns undefined */
  openOrThrow<T>(record: string, key: string): Promise<T>;
}

/** @param onRefused called where `open` returns undefined */
export function createSealedJson(
  sealer: Pick<Sealer, 'kids' | 'seal' | 'open'>,
  onRefused: (record: { kind: string; reason: SealReason }) => void = () => undefined,
): SealedJson {
  return {
    get kids() {
      return sealer.kids;
    },
    seal: (value, key) => sealer.seal(JSON.stringify(value), key),
    async open<T>(record: string, key: string) {
      try {
        return JSON.parse(await sealer.open(record, key)) as T;
      } catch (error) {
        if (!(error instanceof SealError)) throw error;
        onRefused({ kind: kindOf(key), reason: error.reason });
        return undefined;
      }
    },
    async openOrThrow<T>(record: string, key: string) {
      return JSON.parse(await sealer.open(record, key)) as T;
    },
  };
}
