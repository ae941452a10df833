/** A reload whose audit entry fails applies nothing, and one that succeeds gives new warnings. */
import { randomBytes } from 'node:crypto';
import { expect, test, vi } from 'vitest';
import type { ReadSettings } from '../../src/gatehouse/read-settings.ts';
import { createReload } from '../../src/gatehouse/reload.ts';
import { AppError } from '../../src/shared/errors.ts';
import { checkKeyRing, keysInUse } from '../../src/shared/storage/key-check.ts';
import { generateEncryptionKey, parseEncryptionKeys } from '../../src/shared/storage/key-ring.ts';
import { keys } from '../../src/shared/storage/keys.ts';
import { createReplaceableSealer } from '../../src/shared/storage/sealed.ts';
import { createStorageSealer } from '../../src/shared/storage/storage.ts';
import { createTestStorage } from '../support/test-storage.ts';

const oldKey = generateEncryptionKey(new Date());
const keysIn = (...texts: string[]) => {
  const parsed = parseEncryptionKeys(texts.join());
  if (!('keys' in parsed)) throw new Error('No keys.');
  return parsed.keys;
};
const settingsOf = (...texts: string[]) =>
  ({
    secrets: new Map([['ENCRYPTION_KEYS', texts.join()]]),
    encryptionKeys: keysIn(...texts),
    fromFile: [],
    warnings: ['first'],
  }) as unknown as ReadSettings;

test('F19: the next start does not require the key that the failed reload would have added', async () => {
  const storage = await createTestStorage('SQLite');
  await storage.withStore(async (store) => {
    const sealer = createReplaceableSealer(createStorageSealer(keysIn(oldKey)));
    await checkKeyRing(store, sealer);
    const append = vi.fn().mockRejectedValueOnce(new AppError('storage_unavailable')).mockResolvedValue(undefined);
    const events = { settingsReloaded: vi.fn(), reloadRefused: vi.fn(), settingWarned: vi.fn() };
    const useSettings = vi.fn();
    const reload = createReload({
      initial: settingsOf(oldKey),
      storage: { store, sealer },
      audit: { trail: { append } },
      events,
      use: useSettings,
    } as unknown as Parameters<typeof createReload>[0]);
    const addedKey = `added:${randomBytes(32).toString('base64url')}`;

    await reload(() => settingsOf(addedKey, oldKey));
    expect([events.reloadRefused.mock.calls.length, useSettings.mock.calls.length]).toEqual([1, 0]);
    expect(await keysInUse(store)).toEqual([sealer.sealingKid]);
    expect(await store.get(keys.keyCheckOf('added'))).toBeUndefined();
    await checkKeyRing(store, createStorageSealer(keysIn(oldKey)));

    await reload(() => settingsOf(addedKey, oldKey));
    expect([sealer.sealingKid, await keysInUse(store)]).toEqual(['added', expect.arrayContaining(['added'])]);

    // Only new warnings are given, and each once.
    const warned = { ...settingsOf(addedKey, oldKey), warnings: ['first', 'second'] };
    await reload(() => warned);
    await reload(() => warned);
    expect(events.settingWarned.mock.calls).toEqual([['second']]);
    expect([events.settingsReloaded, events.reloadRefused].map(({ mock }) => mock.calls.length)).toEqual([3, 1]);
  });
  await storage.dispose();
});
