/** Reports on the encryption keys for an operator, rotates them, or gives up a lost one. */
import { AppError } from '../../shared/errors.ts';
import { keysInUse } from '../../shared/storage/key-check.ts';
import { listKeys, reportKeys } from '../../shared/storage/key-report.ts';
import { assertAllSealWith } from '../../shared/storage/key-roll-call.ts';
import { countDue, forgetKey, type RotationResult, rotateKeys } from '../../shared/storage/key-rotation.ts';
import { countSealed } from '../../shared/storage/sealed-records.ts';
import type { OpenedStorage } from '../../shared/storage/storage.ts';
import { withStorage } from './open-storage.ts';
import { auditedByOperator, auditOperator } from './operator-trail.ts';
import { type Terminal, withProgress } from './terminal.ts';

export const readReport = ({ source }: Terminal) => withStorage(source, reportKeys);

export const rotate = (terminal: Terminal) => withStorage(terminal.source, (storage) => rotateIn(storage, terminal));

/** Gives up a lost key. @param yes if false, only counts the records that the key seals */
export const forget = ({ source }: Terminal, kid: string, yes: boolean) =>
  withStorage(source, (storage) => forgetIn(storage, kid, yes), [kid]);

interface Rotation {
  kid: string;
  result: RotationResult;
  /** Keys after the first one that have never sealed a record. */
  unused: readonly string[];
}

async function rotateIn(storage: OpenedStorage, terminal: Terminal): Promise<Rotation> {
  const { store, sealer } = storage;
  const kid = sealer.sealingKid;
  const assertKeyInUse = () => assertAllSealWith(store, kid);
  await assertKeyInUse();
  const result = await withProgress(terminal, `Sealing with ${kid}`, await countDue(store, sealer), (advance) =>
    rotateKeys(store, sealer, advance, assertKeyInUse),
  );
  await auditOperator(store, { event: 'encryption_key.rotated', facts: { kid, reencrypted: result.resealed } });
  const unused = (await listKeys(storage)).filter((key) => key.unused).map((key) => key.kid);
  return { kid, result, unused };
}

async function forgetIn({ store, sealer }: OpenedStorage, kid: string, yes: boolean): Promise<Record<string, number>> {
  if (sealer.kids.includes(kid)) {
    const detail = `ENCRYPTION_KEYS holds the key "${kid}", so it is not lost. To replace it, run: npm run gatehouse -- keys rotate`;
    throw new AppError('invalid_request', { detail });
  }
  const records = (await countSealed(store, sealer)).get(kid);
  if (!records && !(await keysInUse(store)).includes(kid)) {
    const detail = `There is no key with the id "${kid}". To see the ids, run: npm run gatehouse -- keys status`;
    throw new AppError('invalid_request', { detail });
  }
  if (yes) {
    await auditedByOperator(store, [{ event: 'encryption_key.forgotten', facts: { kid } }], () =>
      forgetKey(store, sealer, kid),
    );
  }
  return Object.fromEntries(records ?? []);
}
