/** The list of sessions while the storage fails: both the page and the count fail, and both failures are handled. */
import { expect, onTestFinished, test } from 'vitest';
import { listFor } from '../../../../src/gatehouse/admin/list.ts';
import type { AdminParts } from '../../../../src/gatehouse/admin/parts.ts';
import { adminSessionRoutes } from '../../../../src/gatehouse/admin/sessions/routes.ts';

test('handles a failed count in addition to a failed page', async () => {
  const unhandled: unknown[] = [];
  const recordUnhandled = (reason: unknown) => void unhandled.push(reason);
  process.on('unhandledRejection', recordUnhandled);
  onTestFinished(() => void process.off('unhandledRejection', recordUnhandled));
  const failure = new Error('The store is unavailable.');
  const routes = adminSessionRoutes({
    sessions: { ofUsers: { page: () => Promise.reject(failure), count: () => Promise.reject(failure) } },
    pages: { page: (_name: string, contentOf: unknown) => ({ handler: contentOf }), list: listFor },
    ...{ users: {}, connectedApps: {}, audit: {}, publicUrl: { basePath: '' } },
  } as unknown as AdminParts);
  const contentOf = routes.page as unknown as (request: object) => Promise<unknown>;
  await expect(contentOf({ req: { originalUrl: '/admin/sessions', query: {} } })).rejects.toBe(failure);
  await new Promise(setImmediate);
  expect(unhandled).toEqual([]);
});
