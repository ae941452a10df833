/** The list of sessions while the store fails: its page and its count fail together, and none of the failures is left unhandled. */
import { expect, onTestFinished, test } from 'vitest';
import { listFor } from '../../../../src/gatehouse/admin/list.ts';
import type { AdminParts } from '../../../../src/gatehouse/admin/parts.ts';
import { adminSessionRoutes } from '../../../../src/gatehouse/admin/sessions/routes.ts';

test('a count that fails beside the page of the list is handled', async () => {
  const unhandled: unknown[] = [];
  const note = (reason: unknown) => void unhandled.push(reason);
  process.on('unhandledRejection', note);
  onTestFinished(() => void process.off('unhandledRejection', note));
  const failure = new Error('The store is away.');
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
