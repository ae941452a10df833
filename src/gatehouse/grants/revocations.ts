/** Revokes tokens at the provider. A revocation is stored sealed, and retried with growing pauses for a week. */
import { randomUUID } from 'node:crypto';
import type { Events } from '../../shared/observability/events.ts';
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import type { ProviderClient } from '../../shared/provider/provider-client.ts';
import type { ProviderReply, RevocationOutcome } from '../../shared/provider/provider-reply.ts';
import { createDueWork, type DueWork } from '../../shared/storage/due-work.ts';
import { keys } from '../../shared/storage/keys.ts';
import { allMembers } from '../../shared/storage/paging.ts';
import type { SealedJson } from '../../shared/storage/sealed-json.ts';
import type { Store } from '../../shared/storage/store.ts';
import { DAY_MS, HOUR_MS } from '../../shared/time.ts';
import { isIssuedFor, type Registration, registrationOf } from '../connected-apps/registration.ts';
import { revocationToken } from './grant.ts';
import type { GrantStore } from './grant-store.ts';

interface RevocationRequest {
  /** `nobody` if the token belongs to no user any more. */
  userId: string;
  appId: string;
  /** The id of the connection that had the token; undefined if none had it. */
  connection?: string | undefined;
  /** The registration that the token was issued for. */
  registration: Registration;
  token: string;
  hint: 'refresh_token' | 'access_token';
  /** The version of the grant to delete, in case the process is killed before it deletes it. */
  grantVersion?: number | undefined;
}

/** Times in milliseconds since the epoch. */
interface Progress {
  since: number;
  attemptCount: number;
  nextAt: number;
  /** The provider's last response. */
  reply?: ProviderReply | undefined;
}

export interface PendingRevocation extends Progress {
  id: string;
  userId: string;
  app: string;
  connection: string | undefined;
}

type StoredRevocation = RevocationRequest & Progress;

/** `pending`: the provider did not confirm it, and it will be retried. */
interface AttemptResult {
  outcome: Exclude<RevocationOutcome, 'unconfirmed'> | 'pending';
  /** The provider's response, if it was called. */
  reply?: ProviderReply | undefined;
  connection?: string | undefined;
}

/** Longer than a call to a provider may take, so that no other process starts the same call. */
const MIN_PAUSE_MS = 30_000;
const MAX_PAUSE_MS = HOUR_MS;
const MAX_AGE_MS = 7 * DAY_MS;
/** Bounds the work of `countOf`: each revocation must be opened to find its app. */
const MAX_COUNTED = 1_000;
const NO_USER = 'nobody';

export interface Revocations {
  /**
   * Stores a request before the grant is deleted, so that a kill loses no revocation. Returns the id of the revocation.
   */
  plan(request: RevocationRequest): Promise<string>;

  /**
   * Calls the provider now.
   * @param signal when aborted, the result is `pending`, and the call continues in the background
   */
  attempt(app: ConnectedApp, userId: string, id: string, signal?: AbortSignal): Promise<AttemptResult>;

  /**
   * Revokes a token that is in no stored grant. The request is stored first, and retried until the provider confirms
   * it.
   */
  revokeUnowned: ProviderClient['revoke'];

  /** Deletes a planned revocation. */
  cancel(userId: string, id: string): Promise<void>;

  /** Returns the pending revocations of a user, oldest first. */
  pendingOf(userId: string): Promise<PendingRevocation[]>;

  /**
   * Counts the pending revocations of an app. `exact` is false if more than 1,000 are pending for all apps together:
   * only the 1,000 that are due first are read.
   */
  countOf(appId: string): Promise<{ count: number; exact: boolean }>;

  /** Returns a page of all pending revocations, those that are due first coming first. */
  page(options: {
    after?: string | undefined;
    limit: number;
  }): Promise<{ items: PendingRevocation[]; next?: string | undefined }>;

  /** Calls the providers of due revocations. Must run in one process at a time. */
  retryDue: DueWork['work'];
}

export function createRevocations(parts: {
  store: Store;
  sealedJson: SealedJson;
  grants: Pick<GrantStore, 'loadStored' | 'remove'>;
  provider: Pick<ProviderClient, 'revoke'>;
  findApp: (id: string) => ConnectedApp | undefined;
  events: Events;
  clock: () => number;
  random: () => number;
}): Revocations {
  const { store, sealedJson, grants, provider, findApp, events, clock, random } = parts;

  /** Loads a record. `revocation` is undefined if the record cannot be opened. */
  const load = async (userId: string, id: string) => {
    const key = keys.revocation(userId, id);
    const record = await store.get(key);
    if (!record) return undefined;
    const { value, version } = record;
    return { revocation: await sealedJson.open<StoredRevocation>(value, key), version };
  };

  const save = async (id: string, revocation: StoredRevocation, ifVersion: number): Promise<void> => {
    const { userId, since, nextAt } = revocation;
    const key = keys.revocation(userId, id);
    const value = await sealedJson.seal(revocation, key);
    // The list is written first: an entry without a record is found and dropped, but a record without an entry is never
    // found.
    await store.write([{ index: keys.revocations, add: memberOf(userId, id), score: nextAt }]);
    await store.write([
      { put: key, value, ifVersion },
      { index: keys.revocationsOf(userId), add: id, score: since },
    ]);
  };

  const drop = async (userId: string, id: string): Promise<void> => {
    await store.write([{ delete: keys.revocation(userId, id) }, { index: keys.revocationsOf(userId), remove: id }]);
    await store.write([{ index: keys.revocations, remove: memberOf(userId, id) }]);
  };

  const plan = async (request: RevocationRequest): Promise<string> => {
    const id = randomUUID();
    const now = clock();
    await save(id, { ...request, since: now, attemptCount: 0, nextAt: now + MIN_PAUSE_MS }, 0);
    return id;
  };

  const call = async (app: ConnectedApp, userId: string, id: string): Promise<AttemptResult> => {
    const { revocation, version = 0 } = (await load(userId, id)) ?? {};
    if (!revocation) return { outcome: 'revoked' };
    // A token of an earlier registration is not sent, but stays pending: the app may be changed back within the week.
    const maySend = isIssuedFor(revocation.registration, app);
    const { outcome, reply } = maySend
      ? await provider.revoke(app, revocation.token, revocation.hint)
      : ({ outcome: 'unconfirmed', reply: undefined } as const);
    if (outcome !== 'unconfirmed') {
      await drop(userId, id);
      return { outcome, reply, connection: revocation.connection };
    }
    const attemptCount = revocation.attemptCount + 1;
    const usualPause = Math.min(MAX_PAUSE_MS, MIN_PAUSE_MS * 2 ** (attemptCount - 1)) * (0.75 + random() / 2);
    const pause = Math.max(usualPause, (reply?.retryAfterSeconds ?? 0) * 1000);
    // `grantVersion` is dropped: the grant was deleted before the provider was called.
    const postponed = { ...revocation, grantVersion: undefined, attemptCount, reply, nextAt: clock() + pause };
    await save(id, postponed, version);
    return { outcome: 'pending', reply };
  };

  const attempt = async (app: ConnectedApp, userId: string, id: string, signal?: AbortSignal) => {
    const calling = call(app, userId, id);
    const result = await (signal ? Promise.race([calling, whenAborted(signal)]) : calling);
    if (result) return result;
    void calling.then((lateResult) => announceEnd(userId, app, lateResult)).catch(() => undefined);
    return { outcome: 'pending' } satisfies AttemptResult;
  };

  const announceEnd = (userId: string, app: ConnectedApp, { outcome, connection }: AttemptResult): void => {
    if (outcome !== 'pending') events.revocationEnded({ userId, app: app.id, connection, outcome: 'confirmed' });
  };

  const revokeUnowned: ProviderClient['revoke'] = async (app, token, hint) => {
    const id = await plan({
      userId: NO_USER,
      appId: app.id,
      registration: registrationOf(app),
      token,
      hint,
    }).catch(() => undefined);
    // Without the store, the revocation is attempted only once.
    if (id === undefined) return provider.revoke(app, token, hint);
    const { outcome, reply } = await attempt(app, NO_USER, id).catch((): AttemptResult => ({ outcome: 'pending' }));
    return { outcome: outcome === 'pending' ? 'unconfirmed' : outcome, reply };
  };

  /**
   * Deletes the grant if a kill or an unavailable store left it although its revocation was planned, even if a refresh
   * has changed it since. Returns false if the user has connected again: then the token must not be revoked.
   */
  const finishRemoval = async (userId: string, id: string): Promise<boolean> => {
    for (;;) {
      const { revocation, version = 0 } = (await load(userId, id)) ?? {};
      if (revocation?.grantVersion === undefined) return true;
      if (await grants.remove(userId, revocation.appId, revocation.grantVersion)) return true;
      const stored = await grants.loadStored(userId, revocation.appId);
      if (!stored) return true;
      if ('grant' in stored) {
        const { connectedAt, consentedAt } = stored.grant;
        // A new connection shares no tokens with the ended one, so the old tokens are revoked.
        if (consentedAt > revocation.since) return connectedAt > revocation.since;
      }
      // The newest token is stored before its grant is deleted.
      const newestToken =
        'grant' in stored ? { registration: stored.grant.registration, ...revocationToken(stored.grant) } : {};
      await save(id, { ...revocation, ...newestToken, grantVersion: stored.version }, version);
    }
  };

  /** Retries a due revocation. Resolves with false if the provider was called and did not confirm it. */
  const retry = async (userId: string, id: string): Promise<boolean> => {
    const finish = () => drop(userId, id).then(() => true);
    const stored = await load(userId, id);
    if (!stored) return finish();
    const { revocation } = stored;
    if (revocation && revocation.nextAt > clock()) return true;
    const app = revocation && findApp(revocation.appId);
    if (!app || clock() - revocation.since > MAX_AGE_MS) {
      const { appId = 'unknown', connection } = revocation ?? {};
      events.revocationEnded({ userId, app: appId, connection, outcome: 'abandoned' });
      return finish();
    }
    if (!(await finishRemoval(userId, id))) return finish();
    const result = await call(app, userId, id);
    announceEnd(userId, app, result);
    return result.outcome !== 'pending';
  };

  const due = createDueWork({
    store,
    index: keys.revocations,
    clock,
    receiverOf: async (member) => (await load(...parseMember(member)))?.revocation?.appId ?? '',
    work: (member) => retry(...parseMember(member)),
  });

  const pending = async (userId: string, id: string): Promise<PendingRevocation[]> => {
    const { revocation } = (await load(userId, id)) ?? {};
    if (!revocation) return [];
    const { appId: app, connection, since, attemptCount, nextAt, reply } = revocation;
    return [{ id, userId, app, connection, since, attemptCount, nextAt, reply }];
  };

  return {
    plan,
    attempt,
    revokeUnowned,
    cancel: drop,

    async pendingOf(userId) {
      const ids = await allMembers(store, keys.revocationsOf(userId));
      return (await Promise.all(ids.map((id) => pending(userId, id)))).flat();
    },

    async countOf(appId) {
      const { items, next } = await store.page(keys.revocations, { limit: MAX_COUNTED });
      const loaded = await Promise.all(items.map(({ member }) => load(...parseMember(member))));
      return {
        count: loaded.filter((stored) => stored?.revocation?.appId === appId).length,
        exact: next === undefined,
      };
    },

    async page({ after, limit }) {
      const { items, next } = await store.page(keys.revocations, { limit, ...(after !== undefined && { after }) });
      const pages = await Promise.all(items.map(({ member }) => pending(...parseMember(member))));
      return { items: pages.flat(), next };
    },

    retryDue: due.work,
  };
}

function whenAborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    signal.addEventListener('abort', () => resolve(undefined), { once: true });
  });
}

function memberOf(userId: string, id: string): string {
  return JSON.stringify([userId, id]);
}

function parseMember(member: string): [userId: string, id: string] {
  return JSON.parse(member) as [string, string];
}
