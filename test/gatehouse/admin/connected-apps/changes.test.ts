/** Changes of connected apps while users connect: connections are counted before and after the write. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Request } from 'express';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createConnectedAppChanges } from '../../../../src/gatehouse/admin/connected-apps/changes.ts';
import type { ChangedApp } from '../../../../src/gatehouse/admin/connected-apps/view.ts';
import type { AuditEntry } from '../../../../src/gatehouse/audit/kinds.ts';
import {
  type AppRegistry,
  createAppRegistry,
  type RegisteredApp,
} from '../../../../src/gatehouse/connected-apps/app-registry.ts';
import { applyApps } from '../../../../src/gatehouse/connected-apps/apply.ts';
import { createCurrentApps } from '../../../../src/gatehouse/connected-apps/current-apps.ts';
import type { ConnectedAppRegistration } from '../../../../src/shared/provider/connected-app.ts';
import { actorOf, originOf } from '../../../../src/shared/sessions/actor.ts';
import { keys } from '../../../../src/shared/storage/keys.ts';
import { createSealedJson } from '../../../../src/shared/storage/sealed-json.ts';
import { createSqliteStore } from '../../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../../src/shared/storage/store.ts';
import { unavailable } from '../../../../src/shared/storage/unavailable.ts';
import { PLATFORM } from '../../../support/apps.ts';
import { makeSealer } from '../../../support/encryption-keys.ts';

const req = { context: { address: '192.0.2.1', id: 'r1', route: '' } } as unknown as Request;
const { clientSecret: _, ...APP } = { ...PLATFORM, routes: [] };
const NO_OUTCOME = [undefined, undefined];
const REFUSED = { code: 'invalid_request', faults: [{ rule: 'has_connections' }] };
const APP_OF_OTHER_ISSUER = { ...APP, issuer: 'https://elsewhere.test' } as ConnectedAppRegistration;
const management = { url: 'https://idp.test/register/c1', token: 'rat-1' };

let directory: string;
let store: Store;
let registry: AppRegistry;
let registered: RegisteredApp;
/** The outcomes of the audit entries with their codes, in order. */
let outcomes: (string | undefined)[][];
/** The results of the next counts of the connections. */
let counts: number[];
/** The calls for a deleted app, in order, each with its arguments. */
let cleanUpCalls: unknown[][];
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-changes-'));
  store = await createSqliteStore({ directory });
  registry = await createAppRegistry({
    ...{ store, sealedJson: createSealedJson(makeSealer()), apps: createCurrentApps([]), clock: Date.now },
  });
  const created = await registry.create(APP, 's1', { management } as never);
  if (!created) throw new Error('The id is taken.');
  registered = created;
  outcomes = [];
  cleanUpCalls = [];
  counts = [];
  duringLastCount = async () => undefined;
});
afterEach(async () => {
  await registry.close();
  await store.close();
  rmSync(directory, { recursive: true });
});

/** Runs while the connections are counted for the last time. */
let duringLastCount: () => Promise<unknown>;
const countConnections = async () => {
  if (counts.length === 1) await duringLastCount();
  return counts.shift() ?? 0;
};
const changes = () =>
  createConnectedAppChanges({
    ...{ apps: { list: () => [] }, registry, examine: async () => undefined },
    withdraw: async () => void cleanUpCalls.push(['withdraw']),
    audit: {
      trail: { append: async ({ outcome, code }: AuditEntry) => void outcomes.push([outcome, code]) },
      note: () => undefined,
    },
    ...{ countConnections: countConnections, countSetAside: countConnections },
    links: { revokeAll: async (...owner: string[]) => void cleanUpCalls.push(['links', ...owner]) },
    endRemaining: async ({ id }: { id: string }, by: object) => void cleanUpCalls.push(['endRemaining', id, by]),
    checks: { start: () => undefined, forget: async (id: string) => void cleanUpCalls.push(['checks', id]) },
  } as unknown as Parameters<typeof createConnectedAppChanges>[0]);
const changeIssuer = () => {
  const changed = { ...APP_OF_OTHER_ISSUER, version: registered.version, clientSecret: 's2' } as ChangedApp;
  return changes().replace(req, APP.id, changed);
};

test('R116 a change is undone and audited if a user has connected meanwhile', async () => {
  counts = [0, 1];
  await expect(changeIssuer()).rejects.toMatchObject(REFUSED);
  const { version, changedAt, ...unchanged } = registered;
  expect(await registry.find(APP.id)).toMatchObject(unchanged);
  expect(outcomes).toEqual([NO_OUTCOME, ['not_done', 'invalid_request']]);

  counts = [0, 0];
  registered = (await registry.find(APP.id)) ?? registered;
  expect((await changeIssuer()).app.issuer).toBe(APP_OF_OTHER_ISSUER.issuer);
});

test('R116 a file of apps moves no app if a user has connected meanwhile', async () => {
  counts = [1];
  const app = { ...APP_OF_OTHER_ISSUER, clientSecret: 's2' };
  const steps = [{ app, action: 'change', changed: ['issuer'], before: registered }] as never;
  expect(await applyApps({ registry, countSetAside: countConnections }, steps)).toEqual([APP.id]);
  const { version, changedAt, ...unchanged } = registered;
  expect(await registry.find(APP.id)).toMatchObject(unchanged);
});

test.each<[where: string, counts: number[], change: () => Promise<unknown>]>([
  ['in the administration', [0, 1], () => expect(changeIssuer()).rejects.toMatchObject(REFUSED)],
  [
    'by a file of apps',
    [1],
    () => {
      const step = {
        app: { ...APP_OF_OTHER_ISSUER, clientSecret: 's2' },
        action: 'change',
        changed: ['issuer'],
        before: registered,
      };
      return applyApps({ registry, countSetAside: countConnections }, [step] as never);
    },
  ],
])('R116 a change %s is undone also after concurrent changes', async (_where, nextCounts, change) => {
  const rename = async () => {
    const changed = await registry.find(APP.id);
    if (changed) await registry.replace(changed, { ...APP_OF_OTHER_ISSUER, name: 'Renamed' }, 'kept');
  };
  duringLastCount = rename;
  const { find } = registry;
  let hasRenamedAgain = false;
  // The app is changed a second time between the read of the undo and its write.
  registry = {
    ...registry,
    async find(id) {
      const found = await find(id);
      if (found?.app.name === 'Renamed' && !hasRenamedAgain) {
        hasRenamedAgain = true;
        await rename();
      }
      return found;
    },
  };
  counts = nextCounts;
  await change();
  expect((await find(APP.id))?.app.issuer).toBe(APP.issuer);
});

test('R116 a change that was already undone is not changed again', async () => {
  const { replace } = registry;
  registry = {
    ...registry,
    async replace(...args) {
      const changed = await replace(...args);
      return changed && (await replace(changed, { ...APP, name: 'Renamed' }, 'kept'));
    },
  };
  counts = [0, 1];
  await expect(changeIssuer()).rejects.toMatchObject({ code: 'invalid_request' });
  expect((await registry.find(APP.id))?.app).toMatchObject({ issuer: APP.issuer, name: 'Renamed' });
});

test('R117 an app that cannot be opened is not deleted while users are connected', async () => {
  await store.write([{ put: keys.connectedApp(APP.id), value: 'damaged' }]);
  counts = [1, 0];
  await expect(changes().remove(req, APP.id, undefined)).rejects.toMatchObject({
    faults: [{ rule: 'has_connections' }],
  });
  expect(await registry.isUnreadable(APP.id)).toBe(true);
  await changes().remove(req, APP.id, undefined);
  expect(await registry.isUnreadable(APP.id)).toBe(false);
});

describe('a deletion with a late response of the storage', () => {
  /**
   * Replaces the registry by one whose deletion gets no response.
   * @param isDeleted whether the app is deleted all the same
   * @param failingReads how many reads of the app fail afterwards
   */
  function respondLate(isDeleted: boolean, failingReads = 0): void {
    const { remove, find } = registry;
    workingRegistry = registry;
    let isLate = false;
    let remainingFailures = failingReads;
    registry = {
      ...registry,
      async remove(...args) {
        if (isDeleted) await remove(...args);
        isLate = true;
        throw unavailable('No response in time');
      },
      async find(id) {
        if (isLate && remainingFailures > 0) {
          remainingFailures -= 1;
          throw unavailable('No response in time');
        }
        return find(id);
      },
    };
  }
  let workingRegistry: AppRegistry;
  const remove = () => changes().remove(req, APP.id, undefined);
  const endingCalls = [
    ['links', 'app', APP.id],
    ['checks', APP.id],
  ];

  test.each([0, 1])('R117 continues if the app is gone, also after %i failed reads', async (failingReads) => {
    respondLate(true, failingReads);
    await remove();
    expect([cleanUpCalls, outcomes]).toEqual([
      [...endingCalls, ['endRemaining', APP.id, { by: actorOf(req).actor, origin: originOf(req) }], ['withdraw']],
      [NO_OUTCOME],
    ]);
  });

  test('R88 has an unknown result if the app still exists', async () => {
    respondLate(false);
    await expect(remove()).rejects.toMatchObject({ code: 'storage_unavailable', detail: expect.anything() });
    expect([cleanUpCalls, outcomes]).toEqual([[], [NO_OUTCOME, ['unknown', 'storage_unavailable']]]);
  });

  test('R114 revokes connect links when it is repeated', async () => {
    respondLate(true, Number.POSITIVE_INFINITY);
    await expect(remove()).rejects.toMatchObject({ code: 'storage_unavailable' });
    registry = workingRegistry;
    expect([cleanUpCalls, outcomes]).toEqual([[], [NO_OUTCOME, ['unknown', 'storage_unavailable']]]);
    await expect(remove()).rejects.toMatchObject({ code: 'not_found' });
    expect([cleanUpCalls, outcomes]).toEqual([endingCalls, [NO_OUTCOME, ['unknown', 'storage_unavailable']]]);
  });
});
