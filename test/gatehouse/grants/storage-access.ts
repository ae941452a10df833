/** Direct access to the storage of a running Gatehouse, as another process of the deployment has. */

import type { Grant } from '../../../src/gatehouse/grants/grant.ts';
import { createGrantStore, type GrantStore } from '../../../src/gatehouse/grants/grant-store.ts';
import type { Sealer } from '../../../src/shared/storage/sealed.ts';
import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import { createSqliteStore } from '../../../src/shared/storage/sqlite/store.ts';
import type { Store } from '../../../src/shared/storage/store.ts';
import type { UserAgent } from '../../support/browserless.ts';
import { sealerOf } from '../../support/encryption-keys.ts';
import { getJson, type TestGatehouse } from '../../support/gatehouse.ts';

export interface StorageAccess {
  store: Store;
  sealer: Sealer;
  grants: GrantStore;
  /** Throws if there is no grant, or it cannot be read. */
  readGrant(userId: string, appId?: string): Promise<Grant>;
  changeGrant(userId: string, change: (grant: Grant) => Partial<Grant>, appId?: string): Promise<void>;
  close(): Promise<void>;
}

export async function openStorageOf(site: TestGatehouse): Promise<StorageAccess> {
  const store = await createSqliteStore({ directory: site.dataDirectory, clock: Date.now, random: Math.random });
  const sealer = sealerOf(site.env);
  const grants = createGrantStore({ store, sealedJson: createSealedJson(sealer), clock: Date.now });
  const load = async (userId: string, appId = 'platform') => {
    const storedGrant = await grants.loadStored(userId, appId);
    if (!storedGrant || 'unreadable' in storedGrant) throw new Error(`No readable grant of ${userId} for ${appId}.`);
    return storedGrant;
  };
  return {
    store,
    sealer,
    grants,
    readGrant: async (userId, appId) => (await load(userId, appId)).grant,
    async changeGrant(userId, change, appId) {
      const { grant, version } = await load(userId, appId);
      if (!(await grants.save({ ...grant, ...change(grant) }, version)))
        throw new Error('Another write has changed the grant.');
    },
    close: () => store.close(),
  };
}

export interface SessionFacts {
  userId: string;
  csrfToken: string;
}

export interface ConnectionFacts {
  app: string;
  health: string;
  cause: string | null;
  lastUsedAt: string | null;
}

export async function sessionOf(site: { url: string }, agent: UserAgent): Promise<SessionFacts> {
  const { json } = await getJson(agent, `${site.url}/session`);
  const { user, csrfToken } = json as unknown as SessionFacts & { user: { id: string } };
  return { userId: user.id, csrfToken };
}

export async function connectionsOf(site: { url: string }, agent: UserAgent): Promise<ConnectionFacts[]> {
  return (await getJson(agent, `${site.url}/connections`)).json.items as ConnectionFacts[];
}

/** POSTs the disconnect form, and returns the JSON response. */
export async function disconnect(
  site: { url: string },
  agent: UserAgent,
  app = 'platform',
): Promise<Record<string, unknown>> {
  const { csrfToken } = await sessionOf(site, agent);
  const page = await agent.request(`${site.url}/connections/${app}/disconnect`, {
    method: 'POST',
    headers: { accept: 'application/json' },
    body: new URLSearchParams({ _csrf: csrfToken }),
  });
  return JSON.parse(page.body);
}
