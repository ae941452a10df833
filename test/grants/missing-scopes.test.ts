/** R115: the number of connections that an added scope concerns is bounded work, and says whether it is exact. */
import { expect, test } from 'vitest';
import { lackingText } from '../../src/admin/connected-apps/notices.ts';
import type { ConnectionIndex } from '../../src/grants/connection-index.ts';
import type { Grant } from '../../src/grants/grant.ts';
import { createMissingScopes } from '../../src/grants/missing-scopes.ts';

/** An app with so many connections, of which every third was granted `files` before. */
function counting(size: number) {
  const listed = Array.from({ length: size }, (_, at) => ({ userId: String(at), appId: 'platform' }));
  let loads = 0;
  const missing = createMissingScopes({
    index: {
      page: async ({ after = '0', limit }: { after?: string; limit: number }) => {
        const end = Number(after) + limit;
        return { items: listed.slice(Number(after), end), ...(end < size && { next: String(end) }) };
      },
    } as unknown as ConnectionIndex,
    grants: {
      async load(userId) {
        loads += 1;
        if (userId === '1') return undefined;
        const requestedScopes = Number(userId) % 3 === 0 ? ['openid', 'files'] : ['openid'];
        return { grant: { scopes: [], requestedScopes } as unknown as Grant, version: 1 };
      },
      save: async () => undefined,
    },
    events: { scopesMissing: () => undefined },
  });
  return { count: () => missing.count('platform', ['openid', 'files'], ['files']), loads: () => loads };
}

test('R115 up to 1,000 connections it is exact', async () => {
  expect(await counting(30).count()).toEqual({ count: 19, exact: true });
  const thousand = counting(1_000);
  expect(await thousand.count()).toEqual({ count: 665, exact: true });
  expect(thousand.loads()).toBe(1_000);
});

test('R115 of more, the newest 1,000 are counted', async () => {
  const many = counting(1_000_000);
  expect(await many.count()).toEqual({ count: 665, exact: false });
  expect(many.loads()).toBe(1_000);
  expect(lackingText({ scopes: ['files'], connections: 665, exact: false })).toBe(
    'At least 665 connections lack files. They keep working without it until their users allow it. Save again to add it to the app.',
  );
});
