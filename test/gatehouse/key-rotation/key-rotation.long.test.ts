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

const [OLD, NEW] = [1, 2].map(() => generateEncryptionKey(new Date())) as [string, string];
const [oldKid, newKid] = [OLD, NEW].map((setting) => setting.split(':')[0] ?? '') as [string, string];
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
  let before: SharedStorage;
  let admin: Administrator;
  beforeAll(async () => {
    if (missing) return;
    redis = kind === 'Redis' ? await startRedis() : undefined;
    site = await startSite({ env: { ENCRYPTION_KEYS: `${NEW},${OLD}`, ...(redis ? { REDIS_URL: redis.url } : {}) } });
    before = await openSharedStorage({ ...site.env, ENCRYPTION_KEYS: `${OLD},${NEW}` });
    admin = await createAdministrator(site, before);
  });
  afterAll(async () => {
    await before?.store.close();
    await site?.close();
    await redis?.dispose();
  });

  const overview = async () => (await admin.call('GET', '/keys')).json;
  const rotation = async () => (await overview()).rotation as Rotation;
  const kidOf = async (key: string) => before.sealer.kidOf((await before.store.get(key))?.value ?? '');
  const addOld = async (key: string) => {
    await before.store.write([{ put: key, value: await before.sealer.seal('x', key) }]);
    return key;
  };

  test.skipIf(missing)(
    'in the browser: its progress after a kill, the end, and the remaining manual steps',
    async () => {
      const key = await addOld(keys.grant('of-the-browser', 'app'));
      const page = await openPage();
      await page.goto(`${site.url}/sign-in`);
      await completeProviderSignIn(page, site, 'admin@example.test');
      // Another process holds the lease and has done 40 of 100 when it is killed.
      const { store } = before;
      expect(await store.acquireLease(keys.keyRotationLease, 'killed', LONG_MS)).toBeDefined();
      expect(await rotation()).toBeNull();
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
    const key = await addOld(keys.grant('of-the-test', 'app'));
    const total = sumOf((await countSealed(before.store, before.sealer)).get(oldKid));
    const started = await admin.call('POST', '/keys/rotate-encryption', {});
    expect(started).toMatchObject({ status: 202, json: { kid: newKid, finishedAt: null, failure: null } });
    await until(async () => (await rotation()).finishedAt !== null);
    expect(await rotation()).toMatchObject({ total, done: total, failure: null, unreadable: {} });
    expect(await kidOf(key)).toBe(newKid);
    await until(async () => (await overview()).due === 0);
    const { json } = await admin.call('GET', '/audit?limit=2');
    expect((json.items as { event: string; facts: unknown; actor: unknown }[]).map(({ event }) => event)).toEqual([
      ...['key.rotated', 'key.rotation_started'],
    ]);
    expect(json.items).toMatchObject([{ facts: { kid: newKid, resealed: total }, actor: { kind: 'admin_token' } }, {}]);
  });

  test.skipIf(missing)('a permanent failure ends it, says what to do, and is logged', async () => {
    const { store, sealer } = await openSharedStorage(site.env);
    const walk = () => {
      throw new TypeError('a fault of ours');
    };
    // This rotation works under the lease that the test holds, so that the running process cannot finish it first. The
    // lease of the test before may still be about to end.
    let number: number | undefined;
    await until(async () => {
      number = await store.acquireLease(keys.keyRotationLease, 'kept', LONG_MS);
      return number !== undefined;
    });
    const underIt = { ...store, walk, acquireLease: async () => number, releaseLease: async () => true };
    const logged: { cause: unknown }[] = [];
    const failing = createKeyRotation({
      storage: { store: underIt, sealer: createReplaceableSealer(sealer) },
      audit: { trail: { append: async () => undefined } } as unknown as Pick<Audit, 'trail'>,
      events: { keyRotationFailed: (facts) => void logged.push(facts) },
      clock: Date.now,
    });
    await failing.start({ by: { kind: 'system' } } as never);
    await failing.close();
    expect((await failing.progress())?.failure).toContain('keys rotate');
    expect(logged).toEqual([{ cause: expect.objectContaining({ message: 'a fault of ours' }) }]);
    await store.releaseLease(keys.keyRotationLease, 'kept');
    await store.close();
  });

  test.skipIf(missing)('R88 the dates of signing keys: when each was made, and when the next one signs', async () => {
    await admin.call('POST', '/keys/rotate', {});
    const signing = (await overview()).signing as { signs: boolean; createdAt: string; signsFrom: string }[];
    expect(signing.map(({ signs }) => signs)).toEqual([true, false]);
    const [now, next] = signing.map(({ createdAt, signsFrom }) => Date.parse(signsFrom) - Date.parse(createdAt));
    expect([now, next]).toEqual([0, 86_400_000]);
  });

  test.skipIf(missing)('is refused while a process still seals with the old key', async () => {
    await respondToKeyRollCall(before.store, before.sealer);
    const { status, json } = await admin.call('POST', '/keys/rotate-encryption', {});
    expect([status, json.detail]).toEqual([409, expect.stringContaining('A running process seals with another key')]);
    const { agent } = await signIn(site, 'admin@example.test');
    const question = await agent.get(`${site.url}/admin/keys/rotate-encryption`);
    const refused = await agent.submit(question, {}, { button: 'Encrypt again' });
    expect([refused.status, refused.body.includes('A running process seals with another key')]).toEqual([400, true]);
  });
});
