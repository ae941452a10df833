/**
 * A rotation of encryption keys that an administrator starts: its progress, its end, and its continuation after a kill.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Audit } from '../../../src/gatehouse/audit/audit.ts';
import { createKeyRotation } from '../../../src/gatehouse/key-rotation/key-rotation.ts';
import { generateEncryptionKey } from '../../../src/shared/storage/key-ring.ts';
import { respondToKeyRollCall } from '../../../src/shared/storage/key-roll-call.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import { createReplaceableSealer } from '../../../src/shared/storage/sealed.ts';
import { countSealed, sumOf } from '../../../src/shared/storage/sealed-records.ts';
import { useBrowser } from '../../support/browser.ts';
import { openSharedStorage, type SharedStorage, type StoreKind } from '../../support/fleet.ts';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { completeProviderSignIn } from '../../support/journey.ts';
import { missingRedis, type RedisServer, startRedis } from '../../support/redis-server.ts';
import { until } from '../../support/until.ts';
import { type Administrator, createAdministrator } from '../relay/service.ts';

const OLD_KEY = generateEncryptionKey(new Date());
const NEW_KEY = generateEncryptionKey(new Date());
const [oldKid = ''] = OLD_KEY.split(':');
const [newKid = ''] = NEW_KEY.split(':');
const openPage = useBrowser();
/** Longer than any test, so that the lease ends only when it is released. */
const LONG_MS = 3_600_000;

interface Rotation {
  kid: string;
  finishedAt: string | null;
  total: number;
  done: number;
  failure: string | null;
}

describe.each<StoreKind>(['SQLite', 'Redis'])('with %s', (kind) => {
  const missing = kind === 'Redis' ? missingRedis : undefined;
  let redis: RedisServer | undefined;
  let site: TestSite;
  /** Acts as a process whose first key is still the old one. */
  let oldProcess: SharedStorage;
  let admin: Administrator;
  beforeAll(async () => {
    if (missing) return;
    redis = kind === 'Redis' ? await startRedis() : undefined;
    site = await startSite({
      env: { ENCRYPTION_KEYS: `${NEW_KEY},${OLD_KEY}`, ...(redis ? { REDIS_URL: redis.url } : {}) },
    });
    oldProcess = await openSharedStorage({ ...site.env, ENCRYPTION_KEYS: `${OLD_KEY},${NEW_KEY}` });
    admin = await createAdministrator(site, oldProcess);
  });
  afterAll(async () => {
    await oldProcess?.store.close();
    await site?.close();
    await redis?.dispose();
  });

  const readKeys = async () => (await admin.call('GET', '/keys')).json;
  const readRotation = async () => (await readKeys()).rotation as Rotation;
  const kidOf = async (key: string) => oldProcess.sealer.kidOf((await oldProcess.store.get(key))?.value ?? '');
  const writeWithOldKey = async (key: string) => {
    await oldProcess.store.write([{ put: key, value: await oldProcess.sealer.seal('x', key) }]);
    return key;
  };

  test.skipIf(missing)(
    'the page shows the progress of a rotation, which continues after its process was killed, and its end',
    async () => {
      const key = await writeWithOldKey(keys.grant('of-the-browser', 'app'));
      const page = await openPage();
      await page.goto(`${site.url}/sign-in`);
      await completeProviderSignIn(page, site, 'admin@example.test');
      // Another process holds the lease and has done 40 of 100 when it is killed.
      const { store } = oldProcess;
      expect(await store.acquireLease(keys.keyRotationLease, 'killed', LONG_MS)).toBeDefined();
      expect(await readRotation()).toBeNull();
      await page.goto(`${site.url}/admin/keys`);
      await page.getByText('2 records are still encrypted with an older key').waitFor();
      await page.getByRole('link', { name: `Encrypt again with ${newKid}…` }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Encrypt again' }).click();
      await page.getByText('Started. This page shows the progress.').waitFor();
      const record = await store.get(keys.keyRotation);
      const job = { ...JSON.parse(record?.value ?? ''), total: 100, done: 40 };
      await store.write([{ put: keys.keyRotation, value: JSON.stringify(job) }]);
      await page.getByText('40 of 100 records, 60 left').waitFor();
      const { agent } = await signIn(site, 'admin@example.test');
      expect((await agent.get(`${site.url}/admin/keys`)).body).toContain(
        '<noscript><meta http-equiv="refresh" content="2"></noscript>',
      );
      expect(await page.getByRole('progressbar').getAttribute('value')).toBe('40');
      expect(await kidOf(key)).toBe(oldKid);

      await store.releaseLease(keys.keyRotationLease, 'killed');
      await page.getByText('Done').waitFor();
      expect(await kidOf(key)).toBe(newKid);
      expect(await page.locator('main').innerText()).toContain('42 records were encrypted with');
    },
  );

  test.skipIf(missing)('R48 started by the API: seals records of older keys again, with audit entries', async () => {
    const key = await writeWithOldKey(keys.grant('of-the-test', 'app'));
    const total = sumOf((await countSealed(oldProcess.store, oldProcess.sealer)).get(oldKid));
    const started = await admin.call('POST', '/keys/rotate-encryption', {});
    expect(started).toMatchObject({ status: 202, json: { kid: newKid, finishedAt: null, failure: null } });
    await until(async () => (await readRotation()).finishedAt !== null);
    expect(await readRotation()).toMatchObject({ total, done: total, failure: null, unreadable: {} });
    expect(await kidOf(key)).toBe(newKid);
    await until(async () => (await readKeys()).due === 0);
    const { json } = await admin.call('GET', '/audit?limit=2');
    expect((json.items as { event: string; facts: unknown; actor: unknown }[]).map(({ event }) => event)).toEqual([
      ...['encryption_key.rotated', 'encryption_key.rotation_started'],
    ]);
    expect(json.items).toMatchObject([
      { facts: { kid: newKid, reencrypted: total }, actor: { kind: 'admin_token' } },
      {},
    ]);
  });

  test.skipIf(missing)('a permanent failure ends it, says what to do, and is logged', async () => {
    const { store, sealer } = await openSharedStorage(site.env);
    const walk = () => {
      throw new TypeError('a fault of ours');
    };
    // The test holds the lease for its rotation, so that the running process cannot finish it first. The rotation of
    // the previous test may not have released the lease yet.
    let fencingNumber: number | undefined;
    await until(async () => {
      fencingNumber = await store.acquireLease(keys.keyRotationLease, 'kept', LONG_MS);
      return fencingNumber !== undefined;
    });
    const storeWithLease = { ...store, walk, acquireLease: async () => fencingNumber, releaseLease: async () => true };
    const logged: { cause: unknown }[] = [];
    const failingRotation = createKeyRotation({
      storage: { store: storeWithLease, sealer: createReplaceableSealer(sealer) },
      audit: { trail: { append: async () => undefined } } as unknown as Pick<Audit, 'trail'>,
      events: { keyRotationFailed: (facts) => void logged.push(facts) },
      clock: Date.now,
    });
    await failingRotation.start({ by: { kind: 'system' } } as never);
    await failingRotation.close();
    expect((await failingRotation.progress())?.failure).toContain('keys rotate');
    expect(logged).toEqual([{ cause: expect.objectContaining({ message: 'a fault of ours' }) }]);
    await store.releaseLease(keys.keyRotationLease, 'kept');
    await store.close();
  });

  test.skipIf(missing)('R88 the dates of signing keys: when each was made, and when the next one signs', async () => {
    await admin.call('POST', '/keys/rotate-signing', {});
    const signing = (await readKeys()).signingKeys as { active: boolean; createdAt: string; signsFrom: string }[];
    expect(signing.map(({ active }) => active)).toEqual([true, false]);
    const [now, next] = signing.map(({ createdAt, signsFrom }) => Date.parse(signsFrom) - Date.parse(createdAt));
    expect([now, next]).toEqual([0, 86_400_000]);
  });

  test.skipIf(missing)('is refused while a process still seals with the old key', async () => {
    await respondToKeyRollCall(oldProcess.store, oldProcess.sealer);
    const { status, json } = await admin.call('POST', '/keys/rotate-encryption', {});
    expect([status, json.detail]).toEqual([409, expect.stringContaining('A running process seals with another key')]);
    const { agent } = await signIn(site, 'admin@example.test');
    const question = await agent.get(`${site.url}/admin/keys/rotate-encryption`);
    const refused = await agent.submit(question, {}, { button: 'Encrypt again' });
    expect([refused.status, refused.body.includes('A running process seals with another key')]).toEqual([400, true]);
  });
});
