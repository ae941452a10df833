/** R115: connections that lack a scope are counted with bounded work, and announced once. */
import { describe, expect, test } from 'vitest';
import { lackOfScopes } from '../../../src/gatehouse/admin/connected-apps/save-question.ts';
import type { ConnectionIndex } from '../../../src/gatehouse/grants/connection-index.ts';
import type { Grant } from '../../../src/gatehouse/grants/grant.ts';
import { createMissingScopes } from '../../../src/gatehouse/grants/missing-scopes.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';

/** Counts the connections without `files` of an app with `size` connections. Every third one has it, and one is gone. */
function createCounter(size: number) {
  const connections = Array.from({ length: size }, (_, number) => ({ userId: String(number), appId: 'platform' }));
  let loads = 0;
  const missingScopes = createMissingScopes({
    index: {
      page: async ({ after = '0', limit }: { after?: string; limit: number }) => {
        const end = Number(after) + limit;
        return { items: connections.slice(Number(after), end), ...(end < size && { next: String(end) }) };
      },
    } as unknown as ConnectionIndex,
    grants: {
      async loadStored(userId) {
        loads += 1;
        if (userId === '1') return undefined;
        const requestedScopes = Number(userId) % 3 === 0 ? ['openid', 'files'] : ['openid'];
        return { grant: { scopes: [], requestedScopes } as unknown as Grant, version: 1 };
      },
      save: async () => undefined,
    },
    events: { scopesMissing: () => undefined },
  });
  return { count: () => missingScopes.count('platform', ['openid', 'files'], ['files']), loads: () => loads };
}

test('R115 the count of up to 1,000 connections is exact', async () => {
  expect(await createCounter(30).count()).toEqual({ count: 19, exact: true });

  const counter = createCounter(1_000);
  expect(await counter.count()).toEqual({ count: 665, exact: true });
  expect(counter.loads()).toBe(1_000);
});

test('R115 of more than 1,000 connections, only the newest 1,000 are counted', async () => {
  const counter = createCounter(1_000_000);
  expect(await counter.count()).toEqual({ count: 665, exact: false });
  expect(counter.loads()).toBe(1_000);
  expect(lackOfScopes({ scopes: ['files'], connections: 665, exact: false })).toBe(
    'At least 665 connections lack the scope files until their users consent again. They keep working without it.',
  );
});

describe('R115 a scope that a connection newly lacks', () => {
  const app = { id: 'platform', scopes: ['openid', 'mail', 'files'] } as unknown as ConnectedApp;
  const grantOf = (changes: Partial<Grant> = {}) =>
    ({
      userId: 'u1',
      accessToken: 'at1',
      scopes: ['openid', 'mail'],
      requestedScopes: ['openid', 'mail'],
      ...changes,
    }) as Grant;

  async function announceMissing(changes: Partial<Grant> = {}, save = async (): Promise<number | undefined> => 2) {
    const events: unknown[] = [];
    const saved: unknown[] = [];
    const missingScopes = createMissingScopes({
      index: {} as ConnectionIndex,
      grants: {
        loadStored: async () => undefined,
        async save(grant, version) {
          saved.push([grant.announcedScopes, version]);
          return save();
        },
      },
      events: { scopesMissing: (facts) => void events.push(facts) },
    });
    await missingScopes.announce(app, { grant: grantOf(changes), version: 1 });
    return { events, saved };
  }
  const EVENT = { userId: 'u1', app: 'platform', scopes: ['files'] };

  test('is announced, and the grant records it', async () => {
    expect(await announceMissing()).toEqual({ events: [EVENT], saved: [[['files'], 1]] });
  });

  test('is announced together with another one, and the grant keeps those announced before', async () => {
    const changes = { scopes: [], requestedScopes: ['openid'], announcedScopes: ['mail', 'gone'] };
    expect(await announceMissing(changes)).toEqual({
      events: [{ ...EVENT, scopes: ['mail', 'files'] }],
      saved: [[['mail', 'gone', 'files'], 1]],
    });
  });

  test.each<[string, Partial<Grant>]>([
    ['was requested', { requestedScopes: ['openid', 'mail', 'files'] }],
    ['was granted', { scopes: ['openid', 'mail', 'files'] }],
    ['was declined', { declinedScopes: ['files'] }],
    ['was announced', { announcedScopes: ['files'] }],
    ['is of a connection that has ended', { failure: { kind: 'reconnect_needed' } as Grant['failure'] }],
    ['is of an imported connection that was not refreshed', { accessToken: '' }],
    ['is of a connection whose refresh is under way', { refresh: { startedAt: 1, received: undefined } }],
  ])('is not announced if it %s', async (_description, changes) => {
    expect(await announceMissing(changes)).toEqual({ events: [], saved: [] });
  });

  test('is announced even while a refresh fails', async () => {
    const failure = { kind: 'passing' } as Grant['failure'];
    expect((await announceMissing({ failure })).events).toEqual([EVENT]);
  });

  test('is not announced if another process was first, or the store is unavailable', async () => {
    expect((await announceMissing({}, async () => undefined)).events).toEqual([]);
    expect((await announceMissing({}, () => Promise.reject(new Error('away')))).events).toEqual([]);
  });

  test('is not announced for a connection that cannot be read', async () => {
    const missingScopes = createMissingScopes({
      index: {} as ConnectionIndex,
      grants: {} as never,
      events: { scopesMissing: () => undefined },
    });
    await missingScopes.announce(app, undefined);
    await missingScopes.announce(app, { unreadable: new Error('sealed') as never, version: 1 });
  });
});
