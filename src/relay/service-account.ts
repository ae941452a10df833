/** Owns service accounts: platform API tokens that no user stands behind, entered once, sealed, and never shown again. */
import { randomBytes } from 'node:crypto';
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import { AppError } from '../errors.ts';
import type { AuthorizedFetch } from '../grants/authorized-fetch.ts';
import type { Outbound } from '../outbound/outbound.ts';
import { keys } from '../storage/keys.ts';
import { SealError, type Sealer } from '../storage/sealed.ts';
import type { PageOptions, Store } from '../storage/store.ts';

/** Times in milliseconds since the epoch. */
export interface ServiceAccount {
  id: string;
  name: string;
  /** Id of the connected app whose platform takes the token. */
  app: string;
  createdAt: number;
  /** When this API token was entered. */
  tokenSetAt: number;
  version: number;
}

interface KeptAccount extends Omit<ServiceAccount, 'version'> {
  apiToken: string;
  /** Origin of the platform that the token was entered for: it is sent nowhere else. */
  platform: string;
}

export interface ServiceAccounts {
  /** @param wanted `id`: as `newServiceAccountId` draws them; `platform`: origin of the platform that takes the token */
  create(wanted: {
    id: string;
    name: string;
    app: string;
    apiToken: string;
    platform: string;
  }): Promise<ServiceAccount>;
  find(id: string): Promise<ServiceAccount | undefined>;
  /** The newest first. */
  page(
    options: Pick<PageOptions, 'after' | 'limit'>,
  ): Promise<{ accounts: ServiceAccount[]; next: string | undefined }>;
  /** @param wanted `entered` left out: the API token is kept. Undefined where there is no such account. @throws AppError `version_conflict` */
  change(
    id: string,
    version: number,
    wanted: { name: string; entered?: { apiToken: string; platform: string } | undefined },
  ): Promise<ServiceAccount | undefined>;
  /** Answers false where there is no such account. */
  remove(id: string): Promise<boolean>;
  /** The API token, for the call alone. @throws AppError `not_allowed` where it was entered for another platform */
  apiToken(id: string, platform: string): Promise<string | undefined>;
}

const ID = /^sa[0-9a-f]{16}$/;
/** Drawn before the account is made, so that what is told of the making can name it. */
export const newServiceAccountId = (): string => `sa${randomBytes(8).toString('hex')}`;
const MOST_CACHED = 1_000;

export function createServiceAccounts(parts: { store: Store; sealer: Sealer; clock: () => number }): ServiceAccounts {
  const { store, sealer, clock } = parts;
  // An opened account counts only for the very version that was just read.
  const opened = new Map<string, { version: number; kept: KeptAccount }>();

  const load = async (id: string): Promise<{ version: number; kept: KeptAccount } | undefined> => {
    if (!ID.test(id)) return undefined;
    const key = keys.serviceAccount(id);
    const record = await store.get(key);
    if (!record) return undefined;
    const known = opened.get(id);
    if (known?.version === record.version) return known;
    const entry = { version: record.version, kept: JSON.parse(await open(record.value, key)) as KeptAccount };
    if (opened.size >= MOST_CACHED) opened.clear();
    opened.set(id, entry);
    return entry;
  };

  const open = (sealed: string, key: string): Promise<string> =>
    sealer.open(sealed, key).catch((error: unknown) => {
      if (!(error instanceof SealError)) throw error;
      throw new AppError('internal', { logDetail: 'a service account cannot be opened', cause: error });
    });

  const save = async (kept: KeptAccount, ifVersion: number): Promise<ServiceAccount> => {
    const key = keys.serviceAccount(kept.id);
    const written = await store.write([
      { put: key, value: await sealer.seal(JSON.stringify(kept), key), ifVersion },
      { index: keys.serviceAccounts, add: kept.id, score: kept.createdAt },
    ]);
    if (!written) throw conflict();
    return accountOf((await load(kept.id)) ?? { kept, version: ifVersion });
  };

  return {
    create({ id, name, app, apiToken, platform }) {
      const now = clock();
      return save({ id, name, app, apiToken, platform, createdAt: now, tokenSetAt: now }, 0);
    },
    async find(id) {
      const entry = await load(id);
      return entry && accountOf(entry);
    },
    async page(options) {
      const page = await store.page(keys.serviceAccounts, { ...options, order: 'descending' });
      // One that cannot be opened must not hide the others.
      const found = await Promise.all(page.items.map(({ member }) => load(member).catch(() => undefined)));
      return { accounts: found.flatMap((entry) => (entry ? [accountOf(entry)] : [])), next: page.next };
    },
    async change(id, version, { name, entered }) {
      const entry = await load(id);
      if (!entry) return undefined;
      if (entry.version !== version) throw conflict();
      const renewed = entered === undefined ? {} : { ...entered, tokenSetAt: clock() };
      return save({ ...entry.kept, name, ...renewed }, version);
    },
    async remove(id) {
      if (!ID.test(id) || !(await store.get(keys.serviceAccount(id)))) return false;
      opened.delete(id);
      return store.write([{ delete: keys.serviceAccount(id) }, { index: keys.serviceAccounts, remove: id }]);
    },
    async apiToken(id, platform) {
      const entry = await load(id);
      if (entry && entry.kept.platform !== platform) throw elsewhere();
      return entry?.kept.apiToken;
    },
  };
}

/** Calls with a service account's token in place of a user's; whose it is stands where the user's id would. */
export function serviceAccountFetch(accounts: ServiceAccounts, outbound: Outbound): AuthorizedFetch {
  return {
    async get({ userId: id, url, headers, stop, beforeSending }) {
      const target = outbound.target(url);
      const apiToken = await accounts.apiToken(id, target.origin);
      if (apiToken === undefined) return { kind: 'not_connected' };
      await beforeSending?.();
      const call = outbound.stream(target, [...headers, 'authorization', `Bearer ${apiToken}`]);
      stop.whenStopped(() => call.destroy(new Error('Nobody waits for the answer any longer.')));
      return { kind: 'answer', response: await call.answer };
    },
  };
}

export type TokenCheck = 'taken' | 'refused' | 'unreachable';

const CHECK_MILLISECONDS = 10_000;

/** Tries a token on the platform. `taken`: also where the account has no thread, or is over its limit just now. */
export async function checkApiToken(
  app: ConnectedApp & { readonly apiBaseUrl: string },
  apiToken: string,
  outbound: Outbound,
): Promise<TokenCheck> {
  let timer: NodeJS.Timeout | undefined;
  try {
    const target = outbound.target(app.apiBaseUrl.replace(/\/+$/, '') + app.threadPath);
    const headers = ['accept', 'application/json', 'user-agent', 'Gatehouse', 'authorization', `Bearer ${apiToken}`];
    const call = outbound.stream(target, headers);
    timer = setTimeout(() => call.destroy(new Error('The platform took too long.')), CHECK_MILLISECONDS);
    const { statusCode, body } = await call.answer;
    body.destroy(new Error('The status says all.'));
    if (statusCode === 401 || statusCode === 403) return 'refused';
    return statusCode < 300 || statusCode === 404 || statusCode === 429 ? 'taken' : 'unreachable';
  } catch {
    return 'unreachable';
  } finally {
    clearTimeout(timer);
  }
}

function conflict(): AppError {
  return new AppError('version_conflict', { detail: 'Read the service account again and repeat the change.' });
}

function elsewhere(): AppError {
  const detail =
    'Rule serviceAccount: the platform of this app has moved. Its API token has to be entered again by an administrator.';
  return new AppError('not_allowed', { detail });
}

function accountOf({ kept, version }: { kept: KeptAccount; version: number }): ServiceAccount {
  const { apiToken: _, platform: __, ...account } = kept;
  return { ...account, version };
}
