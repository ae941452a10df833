/**
 * Imports connections from another system: validates entries, stores their refresh tokens in batches, and checks each
 * token with one refresh, at a limited rate.
 */
import { hash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { ADVICE, inputFaults } from '../../shared/config/input-faults.ts';
import { workByKey } from '../../shared/fair-pool.ts';
import { type ConnectedApp, isOpenIdApp } from '../../shared/provider/connected-app.ts';
import { acceptedIssuers } from '../../shared/provider/issuer.ts';
import type { CurrentApps } from '../connected-apps/current-apps.ts';
import type { Grant } from '../grants/grant.ts';
import type { GrantImports, ImportedGrant, ImportOutcome } from '../grants/imported-grant.ts';
import {
  IMPORT_CAUSES,
  type ImportCause,
  type ImportEntry,
  type ImportFailure,
  type ImportReport,
  importEntry,
} from './import-schema.ts';
import { userIdOf } from './user-id.ts';
import type { UserStore } from './user-store.ts';

export interface ImportItem {
  /** The line of the file, or the position in the request. */
  line: number;
  /** The parsed JSON of the line; undefined if it is not JSON. */
  entry: unknown;
}

export interface ImportParts {
  apps: Pick<CurrentApps, 'find' | 'signInApps'>;
  users: Pick<UserStore, 'find' | 'conditionsForImport'>;
  imports: GrantImports;
  /** Charges the app's rate budget with one call. Returns the seconds to wait first, if any. */
  charge: (app: ConnectedApp, userId: string) => Promise<number | undefined>;
  /** Writes an entry to the audit trail before a grant is stored. */
  audit: (facts: { userId: string; app: string; connection: string; scopes: readonly string[] }) => Promise<unknown>;
  clock: () => number;
  /** How long to wait for one provider in total. `sinceSuccess`: each success starts the time again. */
  patience: { milliseconds: number; sinceSuccess: boolean };
}

interface SealedEntry extends ImportedGrant {
  line: number;
}

/** How many entries are sealed concurrently, and how many tokens of one app are checked concurrently. */
const CONCURRENCY = 8;
/** The most calls for one token while the provider is unavailable: other tokens of its app may succeed. */
const MAX_CALLS = 5;

/** Starts an import, whose entries come in one or more batches. */
export function startImport(parts: ImportParts) {
  const { apps, users, imports, charge, audit, clock, patience } = parts;
  /** The connections and the hashed tokens of the entries so far. */
  const earlierEntries = new Set<string>();
  const report: ImportReport = { imported: 0, alreadyConnected: 0, refused: 0, unchecked: 0, invalid: 0, failures: [] };
  /** By app: when the wait for its provider began, and until when the provider must not be called. */
  const waits = new Map<string, { since: number; until: number; isLimit: boolean }>();
  const startedAt = clock();

  const fail = (line: number, failure: Partial<ImportFailure> & Pick<ImportFailure, 'result' | 'cause'>) => {
    report[failure.result] += 1;
    const { userId = null, app = null, detail = IMPORT_CAUSES[failure.cause], result, cause } = failure;
    report.failures.push({ line, userId, app, result, cause, detail });
  };

  const count = ({ line, userId, app }: SealedEntry, outcome: ImportOutcome) => {
    if (outcome.kind === 'imported') report.imported += 1;
    else if (outcome.kind === 'already_connected') report.alreadyConnected += 1;
    else fail(line, { userId, app: app.id, result: outcome.kind, cause: outcome.cause });
  };

  const userOf = async ({
    user,
  }: ImportEntry): Promise<{ id: string; issuer: string; subject: string } | ImportCause> => {
    const issuers = new Set(apps.signInApps().flatMap(acceptedIssuers));
    const [firstIssuer, ...otherIssuers] = issuers;
    const issuer = user.issuer ?? (otherIssuers.length === 0 ? firstIssuer : undefined);
    if (user.subject !== undefined && issuer === undefined) return 'issuer_missing';
    if (user.issuer !== undefined && !issuers.has(user.issuer)) return 'unknown_issuer';
    const id = user.id ?? userIdOf(issuer ?? '', user.subject ?? '');
    const storedUser = await users.find(id);
    if (storedUser?.disabledAt !== undefined) return 'user_disabled';
    if (storedUser) return storedUser;
    // A user who signs in later gets the same id.
    return user.id === undefined ? { id, issuer: issuer ?? '', subject: user.subject ?? '' } : 'unknown_user';
  };

  const accountOf = (
    app: ConnectedApp,
    entry: ImportEntry,
    user: { issuer: string; subject: string },
  ): Grant['account'] => {
    const subject = entry.account?.subject;
    if (!isOpenIdApp(app)) return subject === undefined ? {} : { accountId: subject };
    const issuers = acceptedIssuers(app);
    const isSignInProvider = issuers.includes(user.issuer);
    const issuer = isSignInProvider ? user.issuer : issuers[0];
    return { issuer, subject: subject ?? (isSignInProvider ? user.subject : undefined) };
  };

  const validate = async ({ line, entry: input }: ImportItem): Promise<SealedEntry | undefined> => {
    const invalid = (cause: ImportCause, details: Partial<ImportFailure> = {}) =>
      void fail(line, { result: 'invalid', cause, ...details });
    if (typeof input !== 'object' || input === null || Array.isArray(input)) return invalid('malformed_json');
    const parsed = importEntry.safeParse(input, ADVICE);
    if (!parsed.success) {
      const [fault] = inputFaults(parsed.error);
      return invalid('invalid_entry', { detail: `${fault?.pointer}: ${fault?.detail}` });
    }
    const entry = parsed.data;
    const app = apps.find(entry.app);
    if (!app) return invalid('unknown_app', { app: entry.app });
    if (app.disabled) return invalid('app_disabled', { app: app.id });
    const user = await userOf(entry);
    if (typeof user === 'string') return invalid(user, { app: app.id, userId: entry.user.id ?? null });
    const key = JSON.stringify([user.id, app.id]);
    if (earlierEntries.has(key)) return invalid('duplicate', { app: app.id, userId: user.id });
    const { refreshToken, scopes = app.scopes } = entry;
    // At a provider that rotates refresh tokens, a second use would end the first connection.
    const tokenHash = hash('sha256', refreshToken, 'base64url');
    if (earlierEntries.has(tokenHash)) return invalid('same_token', { app: app.id, userId: user.id });
    earlierEntries.add(key).add(tokenHash);
    const conditions = () => users.conditionsForImport(user.id, startedAt);
    return { line, userId: user.id, app, refreshToken, scopes, account: accountOf(app, entry, user), conditions };
  };

  const seal = async (item: ImportItem): Promise<SealedEntry | undefined> => {
    const entry = await validate(item);
    if (!entry) return undefined;
    const { userId, app, scopes } = entry;
    const outcome = await imports.seal(entry, async (connection) => {
      await audit({ userId, app: app.id, connection, scopes });
    });
    if (outcome) count(entry, outcome);
    return outcome ? undefined : entry;
  };

  /**
   * Waits until the provider of the app may be called. Returns false if the import does not wait that long.
   * @param isLast true if no call follows for this token, so that only other tokens wait
   */
  const waitUntil = async (appId: string, until: number, isLimit = false, isLast = false): Promise<boolean> => {
    const since = waits.get(appId)?.since ?? (patience.sinceSuccess ? clock() : startedAt);
    waits.set(appId, { since, until, isLimit });
    if (isLast || until > since + patience.milliseconds) return false;
    await sleep(Math.max(0, until - clock()));
    return true;
  };

  const check = async (entry: SealedEntry): Promise<void> => {
    const { app, userId } = entry;
    let calls = 0;
    let outcome: ImportOutcome = { kind: 'unchecked', cause: 'not_checked', retryAt: 0 };
    /** Returns whether another attempt must follow. */
    const attempt = async (): Promise<boolean> => {
      const wait = waits.get(app.id);
      if (wait && wait.until > clock()) return waitUntil(app.id, wait.until, wait.isLimit);
      const seconds = await charge(app, userId);
      if (seconds !== undefined) return waitUntil(app.id, clock() + seconds * 1000);
      outcome = await imports.check(entry);
      calls += 1;
      const until = outcome.kind === 'unchecked' ? pauseOf(outcome) : undefined;
      if (until !== undefined) return waitUntil(app.id, until, isLimited(outcome), calls >= MAX_CALLS);
      // A call that was already running when the provider named a time does not end that wait.
      const current = waits.get(app.id);
      if (!current?.isLimit || current.until <= clock()) waits.delete(app.id);
      return false;
    };
    while (await attempt());
    count(entry, outcome);
  };

  return {
    report,

    /**
     * Seals all entries of a batch, then checks them.
     * @throws AppError `storage_unavailable`: sealed entries stay stored
     */
    async take(items: readonly ImportItem[]): Promise<void> {
      const sealedEntries: SealedEntry[] = [];
      await workByKey(items, { keyOf: () => 'storage', atOnce: CONCURRENCY }, async (item) => {
        const entry = await seal(item);
        if (entry) sealedEntries.push(entry);
      });
      // A provider that hangs or limits its calls delays only the tokens of its own app.
      await workByKey(sealedEntries, { keyOf: ({ app }) => app.id, atOnce: CONCURRENCY }, check);
      report.failures.sort((a, b) => a.line - b.line);
    },
  };
}

/** Returns the time until which no token of the app can succeed; undefined if only this token failed. */
function pauseOf({ cause, retryAt }: ImportOutcome & { kind: 'unchecked' }): number | undefined {
  if (cause === 'app_refused') return Number.POSITIVE_INFINITY;
  return cause === 'provider_unavailable' || cause === 'provider_limited' ? retryAt : undefined;
}

const isLimited = (outcome: ImportOutcome) =>
  outcome.kind === 'unchecked' && outcome.reason?.startsWith('status_429') === true;
