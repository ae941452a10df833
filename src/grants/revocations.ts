/** Owns revocations that the provider has not confirmed yet: kept sealed, tried again with growing pauses by one process at a time, and shown until they are done. */
import { randomUUID } from 'node:crypto';
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import type { ProviderClient } from '../connected-apps/provider-client.ts';
import type { ProviderSaid, RevocationOutcome } from '../connected-apps/provider-said.ts';
import type { Events } from '../observability/events.ts';
import { keys } from '../storage/keys.ts';
import { SealError, type Sealer } from '../storage/sealed.ts';
import type { Store } from '../storage/store.ts';
import { revocationToken } from './grant.ts';
import type { GrantStore } from './grant-store.ts';

export interface RevocationRequest {
  /** `nobody` where the token is no user's any more. */
  userId: string;
  appId: string;
  token: string;
  hint: 'refresh_token' | 'access_token';
  /** The version of the grant that goes: it is deleted at a later try where the first did not come so far. */
  grantVersion?: number | undefined;
}

/** Times in milliseconds since the epoch. */
export interface PendingRevocation {
  id: string;
  userId: string;
  app: string;
  since: number;
  attempts: number;
  nextAt: number;
  /** The provider's last answer. */
  said?: ProviderSaid | undefined;
}

/** `pending`: the provider did not confirm, and is asked again later. */
export interface AttemptAnswer {
  outcome: Exclude<RevocationOutcome, 'unconfirmed'> | 'pending';
  /** What the provider answered, where it was asked. */
  said?: ProviderSaid;
}

export interface Revocations {
  /** Keeps the request before anything else is done, so that a kill loses no revocation. Answers its id. */
  plan(request: RevocationRequest): Promise<string>;
  /** Takes it back: nothing is to be revoked after all. */
  cancel(userId: string, id: string): Promise<void>;
  /** Asks the provider now. */
  attempt(app: ConnectedApp, userId: string, id: string): Promise<AttemptAnswer>;
  /** Those of one user, the oldest first. */
  pendingOf(userId: string): Promise<PendingRevocation[]>;
  page(request: { after?: string | undefined; limit: number }): Promise<{ items: PendingRevocation[]; next?: string }>;
  /** Tries those that are due. */
  retryDue(): Promise<void>;
}

interface KeptRevocation extends RevocationRequest {
  since: number;
  attempts: number;
  nextAt: number;
  said?: ProviderSaid | undefined;
}

/** Longer than a call to a provider may take, so that no other process begins the same one. */
const FIRST_PAUSE_MILLISECONDS = 30_000;
const MOST_PAUSE_MILLISECONDS = 3_600_000;
const MOST_MILLISECONDS = 7 * 86_400_000;
const BATCH = 50;
const NOBODY = 'nobody';

export function createRevocations(parts: {
  store: Store;
  sealer: Sealer;
  grants: Pick<GrantStore, 'load' | 'remove'>;
  provider: Pick<ProviderClient, 'revoke'>;
  findApp: (id: string) => ConnectedApp | undefined;
  events: Events;
  clock: () => number;
  random: () => number;
}): Revocations {
  const { store, sealer, grants, provider, findApp, events, clock, random } = parts;

  /** `damaged`: it is there and cannot be opened. */
  const load = async (userId: string, id: string): Promise<{ kept?: KeptRevocation; version: number } | undefined> => {
    const key = keys.revocation(userId, id);
    const stored = await store.get(key);
    if (!stored) return undefined;
    try {
      return { kept: JSON.parse(await sealer.open(stored.value, key)) as KeptRevocation, version: stored.version };
    } catch (error) {
      if (error instanceof SealError) return { version: stored.version };
      throw error;
    }
  };

  const save = async (id: string, kept: KeptRevocation, ifVersion: number): Promise<boolean> => {
    const key = keys.revocation(kept.userId, id);
    const value = await sealer.seal(JSON.stringify(kept), key);
    // In the list first: an entry without a record is found and dropped, a record without an entry never.
    await store.write([{ index: keys.revocations, add: JSON.stringify([kept.userId, id]), score: kept.nextAt }]);
    return store.write([
      { put: key, value, ifVersion },
      { index: keys.revocationsOf(kept.userId), add: id, score: kept.since },
    ]);
  };

  const drop = async (userId: string, id: string): Promise<void> => {
    await store.write([{ delete: keys.revocation(userId, id) }, { index: keys.revocationsOf(userId), remove: id }]);
    await store.write([{ index: keys.revocations, remove: JSON.stringify([userId, id]) }]);
  };

  const postpone = async (
    id: string,
    kept: KeptRevocation,
    version: number,
    said: ProviderSaid | undefined,
  ): Promise<void> => {
    const attempts = kept.attempts + 1;
    const pause = Math.min(MOST_PAUSE_MILLISECONDS, FIRST_PAUSE_MILLISECONDS * 2 ** (attempts - 1));
    // Whoever has asked the provider has seen to the grant before.
    await save(
      id,
      { ...kept, grantVersion: undefined, attempts, said, nextAt: clock() + pause * (0.75 + random() / 2) },
      version,
    );
  };

  const attempt: Revocations['attempt'] = async (app, userId, id) => {
    const found = await load(userId, id);
    if (!found?.kept) return { outcome: 'revoked' };
    const { kept, version } = found;
    const { outcome, said } = await provider.revoke(app, kept.token, kept.hint);
    if (outcome === 'unconfirmed') {
      await postpone(id, kept, version, said);
      return { outcome: 'pending', ...(said && { said }) };
    }
    await drop(userId, id);
    return { outcome, ...(said && { said }) };
  };

  /**
   * A kill between keeping the request and deleting the grant leaves both, and so does a storage that is away for a moment: the
   * wish to disconnect counts, whatever a refresh has written since. Answers false where the person has connected again after
   * it: then the connection lives, and the provider must not end it.
   */
  const finishRemoval = async (userId: string, id: string): Promise<boolean> => {
    for (;;) {
      const { kept, version = 0 } = (await load(userId, id)) ?? {};
      if (kept?.grantVersion === undefined) return true;
      if (await grants.remove(userId, kept.appId, kept.grantVersion)) return true;
      const stored = await grants.load(userId, kept.appId);
      if (!stored) return true;
      if ('grant' in stored) {
        const { connectedAt, consentedAt = connectedAt } = stored.grant;
        // One that was made anew has nothing of the one that is to be revoked.
        if (consentedAt > kept.since) return connectedAt > kept.since;
      }
      // The newest token is kept before the grant that has it is deleted.
      const newest = 'grant' in stored ? revocationToken(stored.grant) : {};
      await save(id, { ...kept, ...newest, grantVersion: stored.version }, version);
    }
  };

  const retry = async (userId: string, id: string): Promise<void> => {
    const found = await load(userId, id);
    if (!found) return drop(userId, id);
    const app = found.kept && findApp(found.kept.appId);
    if (!found.kept || !app || clock() - found.kept.since > MOST_MILLISECONDS) {
      events.revocationEnded({ userId, app: found.kept?.appId ?? 'unknown', outcome: 'abandoned' });
      return drop(userId, id);
    }
    if (!(await finishRemoval(userId, id))) return drop(userId, id);
    const { outcome } = await attempt(app, userId, id);
    if (outcome !== 'pending') events.revocationEnded({ userId, app: app.id, outcome: 'confirmed' });
  };

  const pending = async (userId: string, id: string): Promise<PendingRevocation[]> => {
    const { appId: app, since, attempts, nextAt, said } = (await load(userId, id))?.kept ?? {};
    if (app === undefined || since === undefined || attempts === undefined || nextAt === undefined) return [];
    return [{ id, userId, app, since, attempts, nextAt, said }];
  };

  return {
    attempt,
    cancel: drop,

    async plan(request) {
      const id = randomUUID();
      const now = clock();
      await save(id, { ...request, since: now, attempts: 0, nextAt: now + FIRST_PAUSE_MILLISECONDS }, 0);
      return id;
    },

    async pendingOf(userId) {
      const { items } = await store.page(keys.revocationsOf(userId), { limit: BATCH });
      return (await Promise.all(items.map(({ member }) => pending(userId, member)))).flat();
    },

    async page({ after, limit }) {
      const page = await store.page(keys.revocations, { limit, ...(after === undefined ? {} : { after }) });
      const items = (await Promise.all(page.items.map(({ member }) => pending(...placeOf(member))))).flat();
      return page.next === undefined ? { items } : { items, next: page.next };
    },

    async retryDue() {
      const { items } = await store.page(keys.revocations, { limit: BATCH });
      const due = items.filter(({ score }) => score <= clock());
      // One provider that is slow must not keep the others waiting.
      await Promise.allSettled(due.map(({ member }) => retry(...placeOf(member))));
    },
  };
}

function placeOf(member: string): [userId: string, id: string] {
  return JSON.parse(member) as [string, string];
}

/** The same provider for whoever has nobody to show a failed revocation to: what it does not confirm is tried again. */
export function persistentRevoke(provider: ProviderClient, revocations: Revocations): ProviderClient {
  return {
    ...provider,
    async revoke(app, token, hint) {
      const request: RevocationRequest = { userId: NOBODY, appId: app.id, token, hint };
      const planned = await revocations.plan(request).catch(() => undefined);
      // A store that cannot keep it must not keep the provider from being asked.
      if (planned === undefined) return provider.revoke(app, token, hint);
      const { outcome, ...rest } = await revocations
        .attempt(app, NOBODY, planned)
        .catch((): AttemptAnswer => ({ outcome: 'pending' }));
      return { outcome: outcome === 'pending' ? 'unconfirmed' : outcome, ...rest };
    },
  };
}
