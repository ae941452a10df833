/**
 * Stores service accounts: platform API tokens without a user, which are entered once, stored sealed and never shown.
 */
import { AppError } from '../../shared/errors.ts';
import type { Outbound } from '../../shared/outbound/outbound.ts';
import { stopError } from '../../shared/outbound/stop.ts';
import { keys } from '../../shared/storage/keys.ts';
import { newOpaqueTokenId } from '../../shared/storage/opaque-token.ts';
import { createRecords, type Records, viewWithout } from '../../shared/storage/records.ts';
import type { SealedJson } from '../../shared/storage/sealed-json.ts';
import type { Store } from '../../shared/storage/store.ts';
import { type ThreadApp, threadUrlOf } from '../connected-apps/current-apps.ts';
import { type AuthorizedFetch, targetBelow } from '../grants/authorized-fetch.ts';
import { SERVICE_ACCOUNT_MOVED } from './policy.ts';

/** Times in milliseconds since the epoch. */
export interface ServiceAccount {
  id: string;
  name: string;
  /** The id of the connected app whose platform accepts the API token. */
  app: string;
  createdAt: number;
  /** When the current API token was entered. */
  tokenSetAt: number;
  /** The origin of the platform that the API token was entered for. It is sent to no other. */
  platform: string;
  version: number;
}

interface StoredAccount extends Omit<ServiceAccount, 'version'> {
  apiToken: string;
}

const PREFIX = 'sa';
/** Creates an id before the account is stored, so that the audit entry, which is written first, can name it. */
export const newServiceAccountId = (): string => PREFIX + newOpaqueTokenId();

export interface ServiceAccounts
  extends Pick<Records<StoredAccount, ServiceAccount>, 'find' | 'page' | 'count' | 'remove'> {
  /** Creates a service account. @param account `id`: from `newServiceAccountId` */
  create(account: Omit<StoredAccount, 'createdAt' | 'tokenSetAt'>): Promise<ServiceAccount>;
  /**
   * Changes a service account. Returns undefined if there is no such account.
   * @param changes `credential`: a new API token; undefined to leave it unchanged
   * @throws AppError `version_conflict`
   */
  change(
    id: string,
    version: number,
    changes: { name: string; credential?: Pick<StoredAccount, 'apiToken' | 'platform'> | undefined },
  ): Promise<ServiceAccount | undefined>;
  /** Returns the API token for a call. @throws AppError `not_allowed` if it was entered for another platform */
  apiToken(id: string, platform: string): Promise<string | undefined>;
}

export function createServiceAccounts(parts: {
  store: Store;
  sealedJson: SealedJson;
  clock: () => number;
}): ServiceAccounts {
  const { store, sealedJson, clock } = parts;
  const records = createRecords<StoredAccount, ServiceAccount>({
    store,
    sealedJson,
    index: keys.serviceAccounts,
    keyOf: keys.serviceAccount,
    prefix: PREFIX,
    resource: 'service account',
    toView: viewWithout('apiToken'),
    whenUnreadable: 'error',
  });

  return {
    find: records.find,
    page: records.page,
    count: records.count,
    remove: records.remove,
    create({ id, name, app, apiToken, platform }) {
      const now = clock();
      return records.create({ id, name, app, apiToken, platform, createdAt: now, tokenSetAt: now });
    },
    change(id, version, { name, credential }) {
      const newCredential = credential && { ...credential, tokenSetAt: clock() };
      return records.change(id, version, (stored) => ({ ...stored, name, ...newCredential }));
    },
    async apiToken(id, platform) {
      const stored = (await records.read(id))?.value;
      if (stored && stored.platform !== platform) throw new AppError('not_allowed', { detail: SERVICE_ACCOUNT_MOVED });
      return stored?.apiToken;
    },
  };
}

/** Returns a fetch that calls with the API tokens of service accounts. */
export function serviceAccountFetch(accounts: ServiceAccounts, outbound: Outbound): AuthorizedFetch {
  return {
    async send({ ownerId, app, call: { method, path, headers, body }, baseUrlFor, stop, beforeSending, relayTokenId }) {
      const target = targetBelow(outbound, baseUrlFor(), path);
      const apiToken = await accounts.apiToken(ownerId, target.origin);
      if (apiToken === undefined) return { kind: 'not_connected' };
      await beforeSending?.();
      const call = outbound.stream(target, [...headers, 'authorization', `Bearer ${apiToken}`], {
        method,
        body,
        app: app.id,
        service: relayTokenId,
      });
      stop.endStepWith(() => call.destroy(stopError(stop.tooLate)));
      return { kind: 'response', response: await call.response };
    },
  };
}

export type TokenCheck = 'accepted' | 'refused' | 'unreachable';

const CHECK_TIMEOUT_MS = 10_000;

/** Tries an API token. It is also `accepted` if the account has no thread (404) or has reached its rate limit (429). */
export async function checkApiToken(app: ThreadApp, apiToken: string, outbound: Outbound): Promise<TokenCheck> {
  let timer: NodeJS.Timeout | undefined;
  try {
    const target = outbound.target(threadUrlOf(app));
    const headers = ['accept', 'application/json', 'user-agent', 'Gatehouse', 'authorization', `Bearer ${apiToken}`];
    const call = outbound.stream(target, headers, { app: app.id });
    timer = setTimeout(() => call.destroy(stopError(true)), CHECK_TIMEOUT_MS);
    const { statusCode, body } = await call.response;
    body.destroy(new Error('Only the status is needed.'));
    if (statusCode === 401 || statusCode === 403) return 'refused';
    return statusCode < 300 || statusCode === 404 || statusCode === 429 ? 'accepted' : 'unreachable';
  } catch {
    return 'unreachable';
  } finally {
    clearTimeout(timer);
  }
}
