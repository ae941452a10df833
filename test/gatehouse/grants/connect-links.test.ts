/** Stored connect links: which of them open, for which user and how long, and which ones a revocation ends. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  CONNECT_LINK_PREFIX,
  type ConnectLinks,
  createConnectLinks,
} from '../../../src/gatehouse/grants/connect-links.ts';
import { AppError } from '../../../src/shared/errors.ts';
import { keys } from '../../../src/shared/storage/keys.ts';
import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store, Write } from '../../../src/shared/storage/store.ts';
import { makeSealer } from '../../support/encryption-keys.ts';
import type { StoreKind } from '../../support/fleet.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { missingRedis } from '../../support/redis-server.ts';
import { createTestStorage, type TestStorage } from '../../support/test-storage.ts';

const NOW = 1_800_000_000_000;
const LIFETIME_MS = 1_800_000;
const PUBLIC_URL = 'https://gatehouse.test/base';

let directory: string;
let store: Store;
let now: number;
let links: ConnectLinks;
beforeEach(async () => {
  now = NOW;
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-links-'));
  store = await createSqliteStore({ directory, clock: () => now });
  const sealedJson = createSealedJson(makeSealer());
  links = createConnectLinks({ store, sealedJson, publicHref: PUBLIC_URL, clock: () => now });
  for (const id of ['t1', 't2']) await store.write([{ put: keys.relayToken(id), value: 'a relay token' }]);
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true });
});

async function createLink(changes: Partial<Parameters<ConnectLinks['create']>[0]> = {}) {
  const request = { userId: 'u1', app: 'platform', scopes: ['openid'], returnUrl: undefined };
  const created = await links.create(
    { ...request, relayToken: { id: 't1', name: 'Nightly' }, ...changes },
    async () => [],
  );
  if (!created) throw new Error('No link was created.');
  const { link, url } = created;
  return { link, url, text: url.slice(`${PUBLIC_URL}/connect/`.length) };
}
const refusalOf = (opening: Promise<unknown>) =>
  opening.then(
    () => 'opened',
    (error: unknown) => (error instanceof AppError ? error : Promise.reject(error)),
  );
const isRefused = async (userId: string, text: string) => (await refusalOf(links.openFor(userId, text))) !== 'opened';

describe('a link', () => {
  test('opens for its user with its stored fields, and has its secret only in the URL', async () => {
    const { link, url, text } = await createLink({ returnUrl: 'https://app.test/done' });
    expect(link).toEqual({
      id: expect.any(String),
      userId: 'u1',
      app: 'platform',
      scopes: ['openid'],
      returnUrl: 'https://app.test/done',
      relayToken: { id: 't1', name: 'Nightly' },
      createdAt: NOW,
      expiresAt: NOW + LIFETIME_MS,
    });
    expect(url).toContain(`${PUBLIC_URL}/connect/${CONNECT_LINK_PREFIX}${link.id}`);
    expect(await links.openFor('u1', text)).toMatchObject({ id: link.id, app: 'platform' });
    expect(await links.find(link.id)).toEqual(link);
    expect(await links.isOpen('u1', link.id)).toBe(true);
  });

  test('R114 is created only while the user may connect, and otherwise leaves nothing', async () => {
    const request = { userId: 'u1', app: 'platform', scopes: [], returnUrl: undefined };
    const create = (conditions: () => Promise<readonly Write[] | undefined>) =>
      links.create({ ...request, relayToken: { id: 't1', name: 'Nightly' } }, conditions);
    const condition = { exists: keys.user('u1'), version: 999 };
    const conditions: (Write[] | undefined)[] = [[condition], undefined];

    expect(await create(async () => conditions.shift())).toBeUndefined();
    expect((await links.page({ limit: 9 })).items).toEqual([]);
    expect(conditions).toEqual([]);

    const conditionsInTurn: Write[][] = [[condition], []];
    const { link } = (await create(async () => conditionsInTurn.shift())) ?? {};

    expect(await links.isOpen('u1', link?.id ?? '')).toBe(true);
  });

  test('works for 30 minutes', async () => {
    const { text } = await createLink();
    now += LIFETIME_MS - 1;

    expect(await isRefused('u1', text)).toBe(false);

    now += 1;
    expect(await isRefused('u1', text)).toBe(true);
  });

  test.each<[string, (createdLink: Awaited<ReturnType<typeof createLink>>) => Promise<unknown> | unknown]>([
    ['is unknown', () => `${CONNECT_LINK_PREFIX}unknown`],
    ['has another secret', async ({ text, link }) => text.replace(link.id, (await createLink()).link.id)],
    ['was used', ({ link }) => store.write([{ delete: keys.connectTicket('u1', link.id) }])],
    ['was revoked', ({ link }) => links.revoke(link.id)],
    ['belongs to a revoked relay token', () => store.write([{ delete: keys.relayToken('t1') }])],
  ])('that %s opens nothing', async (_description, changeLink) => {
    const createdLink = await createLink();
    const changedText = await changeLink(createdLink);

    const error = await refusalOf(
      links.openFor('u1', typeof changedText === 'string' ? changedText : createdLink.text),
    );
    expect(error).toMatchObject({
      code: 'not_found',
      message: 'This link does not exist, was used, was revoked, or is older than 30 minutes.',
    });
  });

  test('is refused for another user, and offers to use another account', async () => {
    const { text } = await createLink();
    const error = await refusalOf(links.openFor('u2', text));
    const path = encodeURIComponent(`/base/connect/${text}`);

    expect(error).toMatchObject({
      code: 'not_allowed',
      ...(error instanceof AppError && { message: error.message }),
      action: { label: 'Use another account', url: `${PUBLIC_URL}/sign-out?return_to=${path}`, isForm: true },
    });
    expect(String((error as AppError).message)).toContain('signed in as another user');
    // The link stays open for its own user.
    expect(await isRefused('u1', text)).toBe(false);
  });

  test('is revoked once', async () => {
    const { link } = await createLink();
    expect(await links.revoke(link.id)).toBe(true);
    expect(await links.revoke(link.id)).toBe(false);
    expect(await links.find(link.id)).toBeUndefined();
    expect(await links.isOpen('u1', link.id)).toBe(false);
  });
});

test.each([
  ['user', 'u2', ['b']],
  ['app', 'files', ['c']],
  ['relay-token', 't2', ['d']],
] as const)('all links of a %s are revoked, and no others', async (owner, ownerId, revoked) => {
  const all = {
    a: await createLink(),
    b: await createLink({ userId: 'u2' }),
    c: await createLink({ app: 'files' }),
    d: await createLink({ relayToken: { id: 't2', name: 'Other' } }),
  };
  await links.revokeAll(owner, ownerId);
  const ended: string[] = [];
  for (const [name, { link }] of Object.entries(all)) if (!(await links.find(link.id))) ended.push(name);

  expect(ended).toEqual(revoked);
});

test('R138 the ten newest open links of a relay token, user and app stay open, and used links do not count', async () => {
  const countOpen = async (created: readonly { text: string }[]) => {
    const areRefused = await Promise.all(created.map(({ text }) => isRefused('u1', text)));
    return areRefused.filter((isLinkRefused) => !isLinkRefused).length;
  };
  const created = [];
  for (let number = 0; number < 10; number += 1) {
    created.push(await createLink());
    now += 1;
  }
  const linksOfOthers = [
    await createLink({ userId: 'u2' }),
    await createLink({ app: 'files' }),
    await createLink({ relayToken: { id: 't2', name: 'Other' } }),
  ];
  const used = created.splice(4, 1);
  await store.write([{ delete: keys.connectTicket('u1', used[0]?.link.id ?? '') }]);
  created.push(await createLink());

  expect(await countOpen(created)).toBe(10);

  created.push(await createLink());
  expect(await refusalOf(links.openFor('u1', created[0]?.text ?? ''))).toMatchObject({
    words: { title: 'This link no longer works' },
  });
  expect(await countOpen(created)).toBe(10);
  expect(await Promise.all(linksOfOthers.map(({ link }) => links.isOpen(link.userId, link.id)))).toEqual([
    true,
    true,
    true,
  ]);
});

test('R138 an expired link is removed from every list, and an ended one at once', async () => {
  const readMembers = async () =>
    (await Array.fromAsync(store.dump())).flat().flatMap((item) => ('index' in item ? [item.member] : []));
  const { link } = await createLink();
  expect(new Set(await readMembers())).toHaveLength(2);

  await links.revoke(link.id);
  expect(await readMembers()).toEqual([]);

  const expiredLink = await createLink({ userId: 'u2', app: 'files' });
  now += LIFETIME_MS;
  const { link: current } = await createLink();

  expect((await readMembers()).filter((member) => member.includes(expiredLink.link.id))).toEqual([]);
  expect((await readMembers()).every((member) => member.includes(current.id))).toBe(true);
});

test('R138 a link that is ended while it is created is in no list', async () => {
  const conditions = async () => [];
  const request = { userId: 'u1', app: 'platform', scopes: [], returnUrl: undefined };
  const slowStore: Store = {
    ...store,
    async write(writes, options) {
      // The link is ended after its ticket is written, and before it is added to the list of open links.
      if (writes.some((write) => 'add' in write && write.index.includes(':open:'))) await links.revokeAll('user', 'u1');
      return store.write(writes, options);
    },
  };
  const sealedJson = createSealedJson(makeSealer());
  const slowLinks = createConnectLinks({ store: slowStore, sealedJson, publicHref: PUBLIC_URL, clock: () => now });
  const created = await slowLinks.create({ ...request, relayToken: { id: 't1', name: 'Nightly' } }, conditions);

  expect(await links.isOpen('u1', created?.link.id ?? '')).toBe(false);

  const items = (await Array.fromAsync(store.dump())).flat();
  expect(items.filter((item) => 'index' in item)).toEqual([]);
});

describe.each<StoreKind>(['SQLite', 'Redis'])('R138 beside a relay token that floods, on %s', (kind) => {
  const missing = kind === 'Redis' ? missingRedis : undefined;
  let testStorage: TestStorage;
  beforeAll(async () => {
    if (!missing) testStorage = await createTestStorage(kind);
  });
  afterAll(() => testStorage?.dispose());

  test('another link stays open, and ending the links of another user reads only those', async (context) => {
    skipIfMissing(context, missing);
    await testStorage.withStore(async (store) => {
      const reads: string[] = [];
      const countingStore: Store = {
        ...store,
        get(key) {
          reads.push(key);
          return store.get(key);
        },
        getIfChanged(key, version) {
          reads.push(key);
          return store.getIfChanged(key, version);
        },
        page(index, options) {
          reads.push(index);
          return store.page(index, options);
        },
      };
      const parts = { sealedJson: createSealedJson(makeSealer()), publicHref: PUBLIC_URL, clock: Date.now };
      const links = createConnectLinks({ store: countingStore, ...parts });
      const create = async (userId: string, tokenId: string, app = 'platform') => {
        const details = { userId, app, scopes: ['openid'], returnUrl: undefined };
        const created = await links.create({ ...details, relayToken: { id: tokenId, name: tokenId } }, async () => []);
        return created?.link.id ?? '';
      };
      const otherLink = await create('u1', 't2');
      const ofOtherUser = [await create('u2', 't2'), await create('u2', 't1')];
      const floodingLinks: string[] = [];
      for (let created = 0; created < 1_000; created += 20) {
        floodingLinks.push(...(await Promise.all(Array.from({ length: 20 }, () => create('u1', 't1')))));
      }
      const areOpen = (userId: string, ids: readonly string[]) =>
        Promise.all(ids.map((id) => links.isOpen(userId, id)));
      expect((await areOpen('u1', floodingLinks)).filter(Boolean)).toHaveLength(10);
      expect(await areOpen('u1', [otherLink])).toEqual([true]);
      expect((await links.page({ limit: 2_000 })).items).toHaveLength(13);
      reads.length = 0;
      await links.revokeAll('user', 'u2');
      expect(reads).toEqual([keys.connectLinksOf('user', 'u2')]);
      expect(await areOpen('u2', ofOtherUser)).toEqual([false, false]);
      expect((await areOpen('u1', [...floodingLinks, otherLink])).filter(Boolean)).toHaveLength(11);
    });
  });
});

test('R138 a process whose clock is ahead removes no open link from the lists', async () => {
  const open = await createLink();
  const clock = () => now + LIFETIME_MS + 60_000;
  const parts = { store, sealedJson: createSealedJson(makeSealer()), publicHref: PUBLIC_URL, clock };
  await createConnectLinks(parts).create(
    { userId: 'u2', app: 'files', scopes: [], returnUrl: undefined, relayToken: { id: 't2', name: 'Daily' } },
    async () => [],
  );
  await links.revokeAll('user', 'u1');

  expect(await isRefused('u1', open.text)).toBe(true);
});

test('expired links are removed from the list when a link is created', async () => {
  const readMembers = async () => (await store.page(keys.connectLinks, { limit: 9 })).items.map(({ member }) => member);
  const first = await createLink();
  now += LIFETIME_MS - 1;
  const second = await createLink();

  expect(await readMembers()).toEqual([first.link.id, second.link.id]);

  now += 1;
  const third = await createLink();

  expect(await readMembers()).toEqual([second.link.id, third.link.id]);
});
