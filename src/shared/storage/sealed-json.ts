/**
 * Seals whole record values as JSON, so that an attacker with access to the store cannot read, change or swap them
 * (R105).
 */
import { kindOf } from './keys.ts';
import { SealError, type Sealer, type SealReason } from './sealed.ts';

/** Seals record values as JSON, and opens them. `key`: the key of the record; a value opens only under it. */
export interface SealedJson {
  /** The ids of all keys that open values. They can change while the process runs. */
  readonly kids: readonly string[];
  seal(value: unknown, key: string): Promise<string>;
  /**
   * Opens a value. Returns undefined if it was not sealed for this record, was changed later, or was sealed with a key
   * that is not in `ENCRYPTION_KEYS` (`unknown_key`). The record then counts as absent.
   */
  open<T>(sealed: string, key: string): Promise<T | undefined>;
  /** Like `open`, for a record that must not count as absent. @throws SealError instead of returning undefined */
  openOrThrow<T>(sealed: string, key: string): Promise<T>;
}

/** @param onRefused called when `open` returns undefined */
export function createSealedJson(
  sealer: Pick<Sealer, 'kids' | 'seal' | 'open'>,
  onRefused: (record: { kind: string; reason: SealReason }) => void = () => undefined,
): SealedJson {
  return {
    get kids() {
      return sealer.kids;
    },
    seal: (value, key) => sealer.seal(JSON.stringify(value), key),
    async open<T>(sealed: string, key: string) {
      try {
        return JSON.parse(await sealer.open(sealed, key)) as T;
      } catch (error) {
        if (!(error instanceof SealError)) throw error;
        onRefused({ kind: kindOf(key), reason: error.reason });
        return undefined;
      }
    },
    async openOrThrow<T>(sealed: string, key: string) {
      return JSON.parse(await sealer.open(sealed, key)) as T;
    },
  };
}
