/** Records that are sealed whole: who can write the store can neither read, change nor exchange them (R105). */
import { kindOf } from './keys.ts';
import { SealError, type Sealer, type SealReason } from './sealed.ts';

export interface SealedJson {
  /** @param key of the record that holds the value */
  seal(value: unknown, key: string): Promise<string>;
  /** Undefined where the record was not sealed for this key, or was changed since: it then counts as absent. */
  open<T>(record: string, key: string): Promise<T | undefined>;
}

/** A record that the store holds and that cannot be opened. */
export interface RefusedRecord {
  kind: string;
  reason: SealReason;
}

export function createSealedJson(
  sealer: Pick<Sealer, 'seal' | 'open'>,
  onRefused: (record: RefusedRecord) => void = () => undefined,
): SealedJson {
  return {
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
  };
}
