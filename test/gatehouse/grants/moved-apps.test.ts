/** R116: connections that a change of an app sets aside are announced once. */
import { expect, test } from 'vitest';
import { registrationOf } from '../../../src/gatehouse/connected-apps/registration.ts';
import { memberOf } from '../../../src/gatehouse/grants/connection-index.ts';
import type { GrantStore } from '../../../src/gatehouse/grants/grant-store.ts';
import { createMovedApps } from '../../../src/gatehouse/grants/moved-apps.ts';
import type { ConnectedApp } from '../../../src/shared/provider/connected-app.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import { ENDLESS_TURN } from '../../support/task-turn.ts';

const appOf = (issuer: string, apiBaseUrl?: string) =>
  ({ id: 'files', name: 'Files', issuer, clientId: 'c1', apiBaseUrl }) as ConnectedApp;
/** A new object each time, like an app that is read again at each change. */
const ownApp = () => appOf('https://home.test');
const movedApp = () => appOf('https://away.test');

test('R116 a second change of an app announces only the connections that this change sets aside', async () => {
  const registrations = new Map<string, ConnectedApp>();
  const records = new Map<string, string>();
  const announced: number[] = [];
  let app = ownApp();
  const task = createMovedApps({
    store: {
      page: async () => ({
        items: [...registrations.keys()].map((userId) => ({ member: memberOf({ userId, appId: 'files' }), score: 0 })),
      }),
      get: async (key: string) => (records.has(key) ? { value: records.get(key), version: 1 } : undefined),
      write: async ([{ put, value }]: [{ put: string; value: string }]) => void records.set(put, value),
    } as unknown as Store,
    grants: {
      loadStored: async (userId: string) => ({
        grant: { userId, appId: 'files', registration: registrationOf(registrations.get(userId) ?? ownApp()) },
        version: 1,
      }),
    } as unknown as GrantStore,
    index: { update: async () => undefined },
    apps: { list: () => [app] },
    events: { connectionsSetAside: ({ count }) => void announced.push(count) },
  });
  const changeTo = async (newApp: ConnectedApp) => {
    app = newApp;
    await task.work(ENDLESS_TURN);
  };

  registrations.set('ann', ownApp()).set('bob', ownApp());
  await changeTo(ownApp());
  await changeTo(movedApp());
  registrations.set('cleo', movedApp());
  await changeTo(appOf('https://away.test', 'https://api.test'));
  await changeTo(appOf('https://away.test'));

  expect(announced).toEqual([2, 1]);

  await changeTo(ownApp());
  await changeTo(movedApp());
  expect(announced).toEqual([2, 1, 1, 2]);
});
