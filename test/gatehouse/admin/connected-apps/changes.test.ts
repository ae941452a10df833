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
const { clientSecret: _, ...HOME } = PLATFORM;
const CONNECTED = { code: 'invalid_request', faults: [{ rule: 'has_connections' }] };
const AWAY = { ...HOME, issuer: 'https://elsewhere.test' } as ConnectedAppRegistration;
const management = { url: 'https://idp.test/register/c1', token: 'rat-1' };

let directory: string;
let store: Store;
let registry: AppRegistry;
let before: RegisteredApp;
let outcomes: (string | undefined)[];
/** The result of each count of the connections. */
let counts: number[];
/** The calls for a deleted app, in order, each with its arguments. */
let rest: unknown[][];
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'gatehouse-changes-'));
  store = await createSqliteStore({ directory });
  registry = await createAppRegistry({
    ...{ store, sealedJson: createSealedJson(makeSealer()), apps: createCurrentApps([]), clock: Date.now },
  });
  const made = await registry.create(HOME, 's1', { management } as never);
  if (!made) throw new Error('The id is taken.');
  [before, outcomes, rest, counts] = [made, [], [], []];
  meanwhile = async () => undefined;
});
afterEach(async () => {
  await registry.close();
  await store.close();
  rmSync(directory, { recursive: true });
});

/** Runs while the connections are counted for the last time. */
let meanwhile: () => Promise<unknown>;
const count = async () => {
  if (counts.length === 1) await meanwhile();
  return counts.shift() ?? 0;
};
const changes = () =>
  createConnectedAppChanges({
    ...{ apps: { list: () => [] }, registry, examine: async () => undefined },
    withdraw: async () => void rest.push(['withdraw']),
    audit: { trail: { append: async ({ outcome }: AuditEntry) => void outcomes.push(outcome) }, note: () => undefined },
    ...{ countConnections: count, countSetAside: count },
    links: { revokeAll: async (...owner: string[]) => void rest.push(['links', ...owner]) },
    endRemaining: async ({ id }: { id: string }, by: object) => void rest.push(['endRemaining', id, by]),
    checks: { forget: async (id: string) => void rest.push(['checks', id]) },
  } as unknown as Parameters<typeof createConnectedAppChanges>[0]);
const move = () =>
  changes().replace(req, HOME.id, { ...AWAY, version: before.version, clientSecret: 's2' } as ChangedApp);

test('R116 a change is undone and audited if a user has connected meanwhile', async () => {
  counts = [0, 1];
  await expect(move()).rejects.toMatchObject(CONNECTED);
  const { version, changedAt, ...rest } = before;
  expect(await registry.find(HOME.id)).toMatchObject(rest);
  expect(outcomes).toEqual([undefined, 'not_done: invalid_request']);
  [counts, before] = [[0, 0], (await registry.find(HOME.id)) ?? before];
  expect((await move()).app.issuer).toBe(AWAY.issuer);
});

test('R116 a file of apps moves no app if a user has connected meanwhile', async () => {
  counts = [1];
  const app = { ...AWAY, clientSecret: 's2' };
  const steps = [{ app, action: 'change', changed: ['issuer'], before }] as never;
  expect(await applyApps({ registry, countSetAside: count }, steps)).toEqual([HOME.id]);
  const { version, changedAt, ...rest } = before;
  expect(await registry.find(HOME.id)).toMatchObject(rest);
});

test.each<[string, number[], () => Promise<unknown>]>([
  ['in the administration', [0, 1], () => expect(move()).rejects.toMatchObject(CONNECTED)],
  [
    'by a file of apps',
    [1],
    () => {
      const step = { app: { ...AWAY, clientSecret: 's2' }, action: 'change', changed: ['issuer'], before };
      return applyApps({ registry, countSetAside: count }, [step] as never);
    },
  ],
])('R116 a change %s is undone also after concurrent changes', async (_where, counted, change) => {
  const saveOther = async () => {
    const moved = await registry.find(HOME.id);
    if (moved) await registry.replace(moved, { ...AWAY, name: 'Renamed' }, 'kept');
  };
  meanwhile = saveOther;
  const { find } = registry;
  let lookUps = 0;
  // Once more after it was read to be taken back.
  registry = {
    ...registry,
    async find(id) {
      const found = await find(id);
      if (found?.app.name === 'Renamed' && lookUps++ === 0) await saveOther();
      return found;
    },
  };
  counts = counted;
  await change();
  expect((await find(HOME.id))?.app.issuer).toBe(HOME.issuer);
});

test('R116 a change that was already undone is not changed again', async () => {
  const { replace } = registry;
  registry = {
    ...registry,
    async replace(...given) {
      const moved = await replace(...given);
      return moved && (await replace(moved, { ...HOME, name: 'Renamed' }, 'kept'));
    },
  };
  counts = [0, 1];
  await expect(move()).rejects.toMatchObject({ code: 'invalid_request' });
  expect((await registry.find(HOME.id))?.app).toMatchObject({ issuer: HOME.issuer, name: 'Renamed' });
});

test('R117 an app that cannot be opened is not deleted while users are connected', async () => {
  await store.write([{ put: keys.connectedApp(HOME.id), value: 'damaged' }]);
  counts = [1, 0];
  await expect(changes().remove(req, HOME.id, undefined)).rejects.toMatchObject({
    faults: [{ rule: 'has_connections' }],
  });
  expect(await registry.isUnreadable(HOME.id)).toBe(true);
  await changes().remove(req, HOME.id, undefined);
  expect(await registry.isUnreadable(HOME.id)).toBe(false);
});

describe('a deletion with a late response of the storage', () => {
  /** @param failingReads how many reads of the app fail afterwards */
  function respondLate(isMade: boolean, failingReads = 0): void {
    const { remove, find } = registry;
    whole = registry;
    let isLate = false;
    registry = {
      ...registry,
      async remove(...given) {
        if (isMade) await remove(...given);
        isLate = true;
        throw unavailable('No response in time');
      },
      async find(id) {
        if (isLate && failingReads > 0) {
          failingReads -= 1;
          throw unavailable('No response in time');
        }
        return find(id);
      },
    };
  }
  let whole: AppRegistry;
  const remove = () => changes().remove(req, HOME.id, undefined);
  const ended = [
    ['links', 'app', HOME.id],
    ['checks', HOME.id],
  ];

  test.each([0, 1])('R117 continues if the app is gone, also after %i failed reads', async (failing) => {
    respondLate(true, failing);
    await remove();
    expect([rest, outcomes]).toEqual([
      [...ended, ['endRemaining', HOME.id, { by: actorOf(req).actor, origin: originOf(req) }], ['withdraw']],
      [undefined],
    ]);
  });

  test('R88 has an unknown result if the app still exists', async () => {
    respondLate(false);
    await expect(remove()).rejects.toMatchObject({ code: 'storage_unavailable', detail: expect.anything() });
    expect([rest, outcomes]).toEqual([[], [undefined, 'unknown: storage_unavailable']]);
  });

  test('R114 revokes connect links when it is repeated', async () => {
    respondLate(true, Number.POSITIVE_INFINITY);
    await expect(remove()).rejects.toMatchObject({ code: 'storage_unavailable' });
    registry = whole;
    expect([rest, outcomes]).toEqual([[], [undefined, 'unknown: storage_unavailable']]);
    await expect(remove()).rejects.toMatchObject({ code: 'not_found' });
    expect([rest, outcomes]).toEqual([ended, [undefined, 'unknown: storage_unavailable']]);
  });
});
