/** Stored connect links: which of them open, for which user and how long, and which ones a revocation ends. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
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

const NOW = 1_800_000_000_000;
const LIFETIME_MS = 1_800_000;
const HREF = 'https://gatehouse.test/base';

let directory: string;
let store: Store;
let now: number;
let links: ConnectLinks;
beforeEach(async () => {
  now = NOW;
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-links-'));
  store = await createSqliteStore({ directory, clock: () => now });
  const sealedJson = createSealedJson(makeSealer());
  links = createConnectLinks({ store, sealedJson, publicHref: HREF, clock: () => now });
  for (const id of ['t1', 't2']) await store.write([{ put: keys.relayToken(id), value: 'a relay token' }]);
});
afterEach(async () => {
  await store.close();
  rmSync(directory, { recursive: true });
});

async function createLink(changes: Partial<Parameters<ConnectLinks['create']>[0]> = {}) {
  const wanted = { userId: 'u1', app: 'platform', scopes: ['openid'], returnUrl: undefined };
  const created = await links.create(
    { ...wanted, relayToken: { id: 't1', name: 'Nightly' }, ...changes },
    async () => [],
  );
  if (!created) throw new Error('No link was created.');
  const { link, url } = created;
  return { link, url, text: url.slice(`${HREF}/connect/`.length) };
}
const refusal = (opening: Promise<unknown>) =>
  opening.then(
    () => 'opened',
    (error: unknown) => (error instanceof AppError ? error : Promise.reject(error)),
  );
const isRefused = async (userId: string, text: string) => (await refusal(links.openFor(userId, text))) !== 'opened';

describe('a link', () => {
  test('opens for its user with its stored fields, and has its secret only in the URL', async () => {
    const { link, url, text } = await createLink({ returnUrl: 'https://app.test/done' });
    expect(link).toEqual({
      ...{ id: expect.any(String), userId: 'u1', app: 'platform', scopes: ['openid'] },
      ...{ returnUrl: 'https://app.test/done', relayToken: { id: 't1', name: 'Nightly' } },
      ...{ createdAt: NOW, expiresAt: NOW + LIFETIME_MS },
    });
    expect(url).toContain(`${HREF}/connect/${CONNECT_LINK_PREFIX}${link.id}`);
    expect(await links.openFor('u1', text)).toMatchObject({ id: link.id, app: 'platform' });
    expect(await links.find(link.id)).toEqual(link);
    expect(await links.isOpen('u1', link.id)).toBe(true);
  });

  test('R114 is created only while the user may connect, and otherwise leaves nothing', async () => {
    const wanted = { userId: 'u1', app: 'platform', scopes: [], returnUrl: undefined };
    const create = (conditions: () => Promise<readonly Write[] | undefined>) =>
      links.create({ ...wanted, relayToken: { id: 't1', name: 'Nightly' } }, conditions);
    const [condition] = [{ exists: keys.user('u1'), version: 999 }];
    const conditions: (Write[] | undefined)[] = [[condition], undefined];
    expect(await create(async () => conditions.shift())).toBeUndefined();
    expect([(await links.page({ limit: 9 })).items, conditions]).toEqual([[], []]);
    const retried: Write[][] = [[condition], []];
    const { link } = (await create(async () => retried.shift())) ?? {};
    expect(await links.isOpen('u1', link?.id ?? '')).toBe(true);
  });

  test('works for 30 minutes', async () => {
    const { text } = await createLink();
    now += LIFETIME_MS - 1;
    expect(await isRefused('u1', text)).toBe(false);
    now += 1;
    expect(await isRefused('u1', text)).toBe(true);
  });

  test.each<[string, (one: Awaited<ReturnType<typeof createLink>>) => Promise<unknown> | unknown]>([
    ['is unknown', () => `${CONNECT_LINK_PREFIX}unknown`],
    ['has another secret', async ({ text, link }) => text.replace(link.id, (await createLink()).link.id)],
    ['was used', ({ link }) => store.write([{ delete: keys.connectTicket('u1', link.id) }])],
    ['was revoked', ({ link }) => links.revoke(link.id)],
    ['belongs to a revoked relay token', () => store.write([{ delete: keys.relayToken('t1') }])],
  ])('that %s opens nothing', async (_words, spoil) => {
    const one = await createLink();
    const spoilt = await spoil(one);
    const error = await refusal(links.openFor('u1', typeof spoilt === 'string' ? spoilt : one.text));
    expect(error).toMatchObject({
      code: 'not_found',
      message: 'This link does not exist, was used, was revoked, or is older than 30 minutes.',
    });
  });

  test('is refused for another user, and offers to use another account', async () => {
    const { text } = await createLink();
    const error = await refusal(links.openFor('u2', text));
    const path = encodeURIComponent(`/base/connect/${text}`);
    expect(error).toMatchObject({
      code: 'not_allowed',
      ...(error instanceof AppError && { message: error.message }),
      step: { label: 'Use another account', url: `${HREF}/sign-out?return_to=${path}`, isForm: true },
    });
    expect(String((error as AppError).message)).toContain('signed in as another user');
    // It stays open for its own user.
    expect(await isRefused('u1', text)).toBe(false);
  });

  test('is revoked once', async () => {
    const { link } = await createLink();
    expect([await links.revoke(link.id), await links.revoke(link.id)]).toEqual([true, false]);
    expect([await links.find(link.id), await links.isOpen('u1', link.id)]).toEqual([undefined, false]);
  });
});

test.each([
  ['a user', { userId: 'u2' }, ['b']],
  ['an app', { app: 'files' }, ['c']],
  ['a relay token', { relayTokenId: 't2' }, ['d']],
])('all links of %s are revoked, and no others', async (_words, of, revoked) => {
  const all = {
    a: await createLink(),
    b: await createLink({ userId: 'u2' }),
    c: await createLink({ app: 'files' }),
    d: await createLink({ relayToken: { id: 't2', name: 'Other' } }),
  };
  await links.revokeAll(of);
  const ended: string[] = [];
  for (const [name, { link }] of Object.entries(all)) if (!(await links.find(link.id))) ended.push(name);
  expect(ended).toEqual(revoked);
});

test('expired links are removed from the list when a link is created', async () => {
  const members = async () => (await store.page(keys.connectLinks, { limit: 9 })).items.map(({ member }) => member);
  const first = await createLink();
  now += LIFETIME_MS - 1;
  const second = await createLink();
  expect(await members()).toEqual([first.link.id, second.link.id]);
  now += 1;
  const third = await createLink();
  expect(await members()).toEqual([second.link.id, third.link.id]);
});
