/** Records that are sealed whole: an attacker who can write to the store cannot read, change or exchange them (R105). */
import { kindOf } from './keys.ts';
import { SealError, type Sealer, type SealReason } from './sealed.ts';

export type SealedJson = ReturnType<typeof createSealedJson>;

export function createSealedJson(
  sealer: Pick<Sealer, 'seal' | 'open'>,
  onRefused: (record: { kind: string; reason: SealReason }) => void = () => undefined,
) {
  return {
    /** @param key of the record that holds the value */
    seal: (value: unknown, key: string): Promise<string> => sealer.seal(JSON.stringify(value), key),
    /** Undefined if the record was not sealed for this key, or was changed since. It then counts as absent. */
    async open<T>(record: string, key: string): Promise<T | undefined> {
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
