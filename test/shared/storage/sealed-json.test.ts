/** R105: records that an attacker without the key wrote to the store grant no access. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createSealedJson, type SealedJson } from '../../../src/shared/storage/sealed-json.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { createAdministrator } from '../../gatehouse/relay/service.ts';
import type { UserAgent } from '../../support/browserless.ts';
import { sealerOf } from '../../support/encryption-keys.ts';
import { getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { ACCEPT_JSON, sendRequest } from '../../support/send-request.ts';
import { createTestStorage, type TestStorage } from '../../support/test-storage.ts';
import { until } from '../../support/until.ts';

let storage: TestStorage;
let site: TestSite;
let json: SealedJson;
beforeAll(async () => {
  storage = await createTestStorage('SQLite');
  site = await startSite({ env: storage.env });
  json = createSealedJson(sealerOf(site.env));
});
afterAll(async () => {
  await site?.close();
  await storage?.dispose();
});

const keysOf = async (prefix: string) =>
  (await storage.items()).flatMap((item) =>
    'record' in item && item.record.startsWith(prefix) && item.value !== 'ended' ? [item.record] : [],
  );
const read = async (store: Store, key: string) => (await store.get(key))?.value ?? '';
/** Replaces the text of a record, like an attacker who can write to the store. */
const forge = (key: string, change: (text: string, store: Store) => Promise<string> | string) =>
  storage.withStore(async (store) => {
    await store.write([{ put: key, value: await change(await read(store, key), store) }]);
  });
const adminStatus = async (agent: UserAgent) =>
  (await agent.get(`${site.url}/admin/api/users`, { headers: ACCEPT_JSON })).status;
const newSession = async (account: string): Promise<{ agent: UserAgent; key: string }> => {
  const keysBefore = await keysOf('session:');
  const { agent } = await signIn(site, account);
  const [key = ''] = (await keysOf('session:')).filter((sessionKey) => !keysBefore.includes(sessionKey));
  return { agent, key };
};

test('R105 a session that was changed, written in plain text or copied to another key is rejected', async () => {
  const { key: adminKey } = await newSession('admin@example.test');
  const forgeries: ((key: string) => Promise<void>)[] = [
    (key) =>
      forge(key, async (text) => {
        const record = await json.open<{ data: { user: { admin: boolean } } }>(text, key);
        if (!record) throw new Error('The session cannot be opened.');
        record.data.user.admin = true;
        return JSON.stringify(record);
      }),
    (key) => forge(key, (_text, store) => read(store, adminKey)),
    (key) => forge(key, (text) => text.replace(/.(?=.{30}$)/, (last) => (last === 'A' ? 'B' : 'A'))),
  ];
  for (const forgeSession of forgeries) {
    const { agent, key } = await newSession('user@example.test');
    expect(await adminStatus(agent)).toBe(403);
    await forgeSession(key);
    expect(await adminStatus(agent)).toBe(401);
    expect((await getJson(agent, `${site.url}/session`)).json).toEqual({ signedIn: false });
  }
});

test('R105 a relay token and an admin token that were changed in the store are rejected', async () => {
  const admin = await storage.withStore((store) => createAdministrator(site, { store, sealer: sealerOf(site.env) }));
  const { token } = await admin.createRelayToken();
  const callRelay = () =>
    sendRequest(`${site.url}/relay/bin/45717360`, { headers: { ...ACCEPT_JSON, authorization: `Bearer ${token}` } });
  expect((await callRelay()).status).toBe(200);

  const widenRights = async (key: string) =>
    forge(key, async (text) =>
      JSON.stringify({ ...(await json.open<object>(text, key)), scope: 'write', users: 'all' }),
    );
  for (const key of await keysOf('relay-token:')) await widenRights(key);
  // A process uses its cached record for a moment.
  await until(async () => (await callRelay()).status === 401);
  expect((await admin.call('GET', '/users')).status).toBe(200);

  for (const key of await keysOf('admin-token:')) await widenRights(key);
  expect((await admin.call('GET', '/users')).status).toBe(401);
});
