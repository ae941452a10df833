/**
 * The names of all that is stored: every key, what it holds and how long it lives, on one page.
 * The part in braces is the slot tag: what must change together carries the same one.
 *
 * | key | holds | lifetime |
 * | --- | --- | --- |
 * | `key-check` | a known text, sealed: shows at start that the keys fit the data | for ever |
 * | `key-check:KID` | the same, sealed by that key: shows two different keys of one id | until that key is dropped |
 * | `schema` | the version of what is stored, and of the oldest program that can read it | for ever |
 * | index `keys-in-use` | ids of the keys that may seal something, by time of their first use | until a key is dropped |
 * | `out-of-service` | that this storage must not be served from: it is being filled, is being moved, or was moved | until filled; 20 s after the mover's last sign of life; for ever |
 * | lease `storage-copy` | which command fills this storage or moves it | 10 s after its holder's last sign of life |
 * | channel `key-roll-call`, `key-roll-call:ASKER` | a question to all processes, and which keys each one has | |
 * | `session:{ID_HASH}` | one browser's session (sealed), or the tombstone of an ended one | until its last possible use |
 * | `session-id-token:{ID_HASH}` | the ID token that began that session (sealed) | until the session is ended, or could not last longer |
 * | `sessions-of:{USER}` | that user's sessions, at most 100: hash of the id, and start; and when the provider last ended all of them | 60 s longer than its newest session can last |
 * | `sessions-of-sid:{SID_HASH}` | the same by issuer and the provider's `sid` | the same |
 * | `logout-token:{TOKEN_HASH}` | that a provider's logout token was used, by issuer and `jti` | while it could be accepted once more |
 * | `problem:{REFERENCE}` | what failed where a page showed that reference: time, code, route, user id, class of the cause | 30 days |
 * | `flash:{HASH}` | a notice or a new secret (sealed) for the page after a redirect, by session and redirect | 60 s, or until read |
 * | `submission:{HASH}` | where a form led that was sent, by session, form and values; empty while it is under way | 60 s |
 * | `transactions:{BROWSER_HASH}` | that browser's pending authorization requests, at most 10 | 600 s |
 * | `grant:{USER}:APP` | one grant: token set (sealed), version, health | until disconnected |
 * | `last-use:{USER}:APP` | when that grant was last used, to the minute | with the grant |
 * | lease `refresh-lease:{USER}:APP` | which process refreshes that grant | 4 s after its holder's last sign of life |
 * | index `open-refreshes` | user and app of refreshes that were begun and may be open, by time | until they are settled |
 * | index `grants:{USER}` | app ids of that user's grants by time of connecting | with the grants |
 * | `observation:{APP}` | what the last sign-in and refresh showed of that app's tokens, for the doctor | for ever |
 * | `bin:{BIN}` | what the BIN lookup service answered, and until when that counts as fresh: 30 days | 180 days; "not found": 1 day |
 * | lease `bin-call:{BIN}` | which process asks the BIN lookup service for that BIN | 3 s after its holder's last sign of life |
 * | counter `bin-quota:{YYYY-MM}` | calls to the BIN lookup service in that UTC month | 100 days |
 * | counter `bin-calls:{USER}:YYYY-MM-DD`, `bin-calls:{TOKEN}:YYYY-MM` | those of one user in that UTC day, of one relay token in that UTC month | 3 days, 100 days |
 * | log `audit:{audit}` | the audit trail, an entry for each event | `AUDIT_DAYS`, at most 1,000,000 changes and 1,000,000 other entries |
 * | index `audit-all:{audit}`, `audit-changes:{audit}`, `audit-others:{audit}` | ids of its entries by time: of all, of changes, and of the others | with the entries |
 * | index `audit-event:{audit}:VALUE_HASH`, `audit-who:{audit}:VALUE_HASH`, `audit-whom:{audit}:VALUE_HASH` | the same of one event, and by who and by whom | with the entries |
 * | `connected-app:{connected-apps}:ID` | one connected app that an administrator registered, its client secret included (sealed) | until deleted |
 * | index `connected-apps:{connected-apps}` | ids of those by time of registering | with them |
 * | `connected-apps-change:{connected-apps}` | a count that grows with each change, so that every process sees one | for ever |
 * | `admin-token:{admin-tokens}:ID` | one admin token (sealed): name, scope, end, hash of its secret | until revoked |
 * | `admin-token-use:{admin-tokens}:ID` | when it was last used, to the minute | with the token |
 * | index `admin-tokens:{admin-tokens}` | ids of those by time of making | with them |
 * | `user:{USER}` | one user: issuer, subject, name, address, first and last sign-in, whether disabled | until deleted |
 * | index `users:{users}` | ids of all users by time of their last sign-in | with them |
 * | index `user-names:{users}` | the same by what they are found by: name, its words, address, id, subject | with them |
 * | index `live-sessions` | hashes of the ids of all sessions by start | with the sessions, or soon after |
 * | index `connections:{connections}`, `connections:{connections}:app:APP`, `connections:{connections}:state:STATE` | user and app of all grants by time of connecting, of those of one app, and of those in one state | with the grants |
 * | `revocation:{USER}:ID` | a token (sealed) that the provider has not confirmed to have revoked; of `nobody` where it is no user's any more | until confirmed, 7 days at most |
 * | index `revocations-of:{USER}`, `revocations` | ids of those of one user by time, and of all by time of the next try | with them |
 * | `sign-in:{sign-ins}:ID` | one attempt to sign in: its steps, outcome and cause; no secret | 32 days |
 * | `sign-in-alias:{sign-ins}:HASH` | the id of the attempt with that state or reference | 32 days |
 * | index `sign-ins:{sign-ins}:LIST` | ids of attempts by start: `all` (at most 50,000), `open` (at most 2,000), `failed`, and `of:HASH` of one user, e-mail address or browser | 30 days |
 * | `disconnect-job:{disconnect-jobs}:APP` | how far disconnecting everybody from that app is | 30 days |
 * | index `disconnect-jobs:{disconnect-jobs}` | apps of those that are under way, by start | until done |
 * | `tally:{HOUR}`, `tally:{DAY}` | how often what happened in that hour or day (UTC) | 3 days, 40 days |
 * | lease `chore:NAME` | which process does that background work | 30 s after its holder's last sign of life |
 * | `bin-service-pause` | until when the BIN lookup service asked not to be called (429) | as it said |
 * | `bin-service-health` | when the BIN lookup service last answered and last failed, and how | 100 days |
 * | counter `bin-lookups:{YYYY-MM}:OUTCOME` | look-ups in that UTC month by source of the answer, or by problem | 100 days |
 * | `bin-dataset` | which imported BIN data set counts and which one did before, each with its source, date, licence and bad rows | until the next import |
 * | `bin-dataset:{ID}:N` | a part of an imported BIN data set, packed and in base64 | until the import after the next |
 * | index `bin-dataset-versions` | ids of data sets that parts may be kept of, by time of import | with the parts |
 * | channel `bin-dataset` | that another data set counts | |
 * | `own-keys` | our own signing keys (sealed) | for ever |
 * | `relay-token:{relay}:ID` | one relay token (sealed): name, policy, hashes of its secrets | until revoked |
 * | `relay-token-use:{relay}:ID` | when it was last used, to the minute, and from where | with the token |
 * | index `relay-tokens:{relay}` | ids of those by time of making | with them |
 * | `service-account:{relay}:ID` | one service account: name, app, platform API token (sealed) | until deleted |
 * | index `service-accounts:{relay}` | ids of those by time of making | with them |
 * | `relay-uses:{TOKEN}` | how often that relay token was used, by hour, route and result, for a week | 8 days |
 * | `relay-uses-of:{USER}:APP` | which services used that grant: name, route, last time, count; at most 50 | with the grant |
 * | counter `provider-calls:{APP}:WHOM:WINDOW` | calls to the platform of that app in those 10 s, of all or of one user (hash) | 90 s |
 * | counter `stated-calls:{APP}:WHOM:WINDOW` | calls of services in a window that the platform states, of all or of one user (hash) | 60 s longer than the window |
 * | counter `limit:{KIND:WHOM}:MINUTE` | requests of one caller (hash) in that minute, once they are many | 120 s |
 * | `webhook:{webhooks}:ID` | one webhook: address, events, signing secret (sealed) | until deleted |
 * | index `webhooks:{webhooks}` | ids of those by time of making | with them |
 * | `webhook-message:{webhooks}:ID` | one message to one webhook: text, tries and their answers | 30 days |
 * | index `webhook-due:{webhooks}` | ids of messages that are to be sent, by time of the next try | until sent or given up |
 * | index `webhook-messages:{webhooks}:WEBHOOK` | ids of that webhook's messages by time | with them, at most 200 |
 * | `plan-account:{ACCOUNT}` | of the BIN lookup service, as all that follow: one account with its plan and the hashes of its keys | for ever |
 * | `api-key:{KEY_HASH}` | whose key that is | until revoked |
 * | index `plan-requests` | accounts that wait for their plan to be confirmed, by time of asking | until confirmed |
 * | `plan-sign-ins:{BROWSER_HASH}` | hashes of the states of that browser's pending authorization requests, at most 10 | 600 s |
 * | counter `plan-use:{SUBJECT}:YYYY-MM` | look-ups of an address or account in that UTC month | 100 days |
 * | counter `plan-overuse:{SUBJECT}` | refusals of late | as long as a ban would last |
 * | counter `plan-ban:{SUBJECT}` | the second in which a ban ends | until then |
 */
import { hash } from 'node:crypto';

/** SHA-256 in base64url: what is looked up by a secret is kept under its hash, so that a copy of the store opens nothing. */
export function hashOf(secret: string): string {
  return hash('sha256', secret, 'base64url');
}

export interface SchemaVersion {
  version: number;
  /** The `version` of the oldest program that can work on what a program of this one writes. */
  oldestReader: number;
}

/**
 * Of this program. `version` rises with each release that keeps something in a new form, and `oldestReader` with it where a
 * program of the version before cannot read that form. A new field alone raises neither: older programs keep it as it is.
 */
export const SCHEMA: SchemaVersion = { version: 1, oldestReader: 1 };

/** What the record of this key is: the word before the first colon or brace. */
export function kindOf(key: string): string {
  return key.slice(0, /[:{]|$/.exec(key)?.index);
}

/**
 * The kinds of records that are sealed, wholly or in part, and what becomes of them where their key is lost for good: `left`
 * where people then see that it cannot be read and put it right, `deleted` where nobody misses it or it is made anew.
 */
export const SEALED_KINDS: Readonly<Record<string, 'left' | 'deleted'>> = {
  'key-check': 'deleted',
  session: 'deleted',
  grant: 'left',
  'session-id-token': 'deleted',
  'connected-app': 'left',
  'admin-token': 'deleted',
  'relay-token': 'deleted',
  'own-keys': 'deleted',
  'service-account': 'left',
  flash: 'deleted',
  webhook: 'left',
  revocation: 'left',
};

/**
 * The kinds that may be answered before they are on disk: what a power cut then takes are the last moments of them, which nobody
 * misses (R51 names what it may not take). A process that is killed loses nothing, and what is written durably later takes them
 * along. Redis decides by its own settings.
 */
export const RELAXED_KINDS: ReadonlySet<string> = new Set([
  'transactions',
  'sign-in',
  'sign-in-alias',
  'sign-ins',
  'live-sessions',
  'last-use',
  'limit',
  'problem',
  'plan-use',
]);

export function isRelaxed(key: string): boolean {
  return RELAXED_KINDS.has(kindOf(key));
}

/** Records that list others and are written before those: a copy that is not of one moment reads them after those. */
export const LISTING_KINDS: readonly string[] = ['sessions-of', 'sessions-of-sid'];

/** What the entries of the audit trail are listed by. */
const AUDIT_FACETS = ['all', 'changes', 'others', 'event', 'who', 'whom'] as const;

export const keys = {
  keyCheck: 'key-check',
  keyCheckOf: (kid: string) => `key-check:${kid}`,
  schema: 'schema',
  keysInUse: 'keys-in-use',
  outOfService: 'out-of-service',
  storageCopy: 'storage-copy',
  /** Owns the sealed digest at the end of a backup; nothing is kept under it. No key id has a brace. */
  backupSeal: 'key-check:{backup}',
  session: (idHash: string) => `session:{${idHash}}`,
  sessionIdToken: (idHash: string) => `session-id-token:{${idHash}}`,
  sessionsOfUser: (userId: string) => `sessions-of:{${userId}}`,
  /** @param id of issuer and `sid`, hashed together */
  sessionsOfProviderSession: (id: string) => `sessions-of-sid:{${id}}`,
  logoutToken: (issuer: string, jti: string) => `logout-token:{${hashOf(JSON.stringify([issuer, jti]))}}`,
  flash: (hash: string) => `flash:{${hash}}`,
  submission: (hash: string) => `submission:{${hash}}`,
  /** In any case. */
  problem: (reference: string) => `problem:{${reference.toLowerCase()}}`,
  transactions: (browserId: string) => `transactions:{${hashOf(browserId)}}`,
  grant: (userId: string, appId: string) => `grant:{${userId}}:${appId}`,
  lastUse: (userId: string, appId: string) => `last-use:{${userId}}:${appId}`,
  refreshLease: (userId: string, appId: string) => `refresh-lease:{${userId}}:${appId}`,
  openRefreshes: 'open-refreshes',
  grants: (userId: string) => `grants:{${userId}}`,
  observation: (appId: string) => `observation:{${appId}}`,
  connectedApp: (id: string) => `connected-app:{connected-apps}:${id}`,
  connectedApps: 'connected-apps:{connected-apps}',
  connectedAppsChange: 'connected-apps-change:{connected-apps}',
  adminToken: (id: string) => `admin-token:{admin-tokens}:${id}`,
  adminTokenUse: (id: string) => `admin-token-use:{admin-tokens}:${id}`,
  adminTokens: 'admin-tokens:{admin-tokens}',
  bin: (bin: string) => `bin:{${bin}}`,
  binQuota: (month: string) => `bin-quota:{${month}}`,
  /** @param caller a user or a relay token. @param period UTC day or month */
  binCallsOf: (caller: string, period: string) => `bin-calls:{${caller}}:${period}`,
  user: (userId: string) => `user:{${userId}}`,
  users: 'users:{users}',
  userNames: 'user-names:{users}',
  liveSessions: 'live-sessions',
  connections: (which: 'all' | 'app' | 'state', value = '') =>
    which === 'all' ? 'connections:{connections}' : `connections:{connections}:${which}:${value}`,
  revocation: (userId: string, id: string) => `revocation:{${userId}}:${id}`,
  revocationsOf: (userId: string) => `revocations-of:{${userId}}`,
  revocations: 'revocations',
  signIn: (id: string) => `sign-in:{sign-ins}:${id}`,
  signInAlias: (alias: string) => `sign-in-alias:{sign-ins}:${hashOf(alias).slice(0, 22)}`,
  signIns: (list: 'all' | 'open' | 'failed' | 'of', whom = '') =>
    `sign-ins:{sign-ins}:${list}${list === 'of' ? `:${hashOf(whom).slice(0, 22)}` : ''}`,
  disconnectJob: (appId: string) => `disconnect-job:{disconnect-jobs}:${appId}`,
  disconnectJobs: 'disconnect-jobs:{disconnect-jobs}',
  tally: (span: string) => `tally:{${span}}`,
  choreLease: (name: string) => `chore:${name}`,
  binServicePause: 'bin-service-pause',
  binServiceHealth: 'bin-service-health',
  binCall: (bin: string) => `bin-call:{${bin}}`,
  binLookups: (month: string, outcome: string) => `bin-lookups:{${month}}:${outcome}`,
  binDataset: 'bin-dataset',
  binDatasetPart: (id: string, part: number) => `bin-dataset:{${id}}:${part}`,
  binDatasetVersions: 'bin-dataset-versions',
  auditLog: 'audit:{audit}',
  /** @param value what anybody may have typed, so that it is kept as its hash */
  auditIndex: (facet: (typeof AUDIT_FACETS)[number], value: string) =>
    facet === 'all' || facet === 'changes' || facet === 'others'
      ? `audit-${facet}:{audit}`
      : `audit-${facet}:{audit}:${hashOf(value).slice(0, 22)}`,
  ownKeys: 'own-keys',
  relayToken: (id: string) => `relay-token:{relay}:${id}`,
  relayTokenUse: (id: string) => `relay-token-use:{relay}:${id}`,
  relayTokens: 'relay-tokens:{relay}',
  serviceAccount: (id: string) => `service-account:{relay}:${id}`,
  serviceAccounts: 'service-accounts:{relay}',
  relayUses: (tokenId: string) => `relay-uses:{${tokenId}}`,
  relayUsesOf: (userId: string, appId: string) => `relay-uses-of:{${userId}}:${appId}`,
  /** @param whom `all`, or who of the app's users */
  providerCalls: (appId: string, whom: string, window: number) =>
    `provider-calls:{${appId}}:${whom === 'all' ? whom : hashOf(whom).slice(0, 22)}:${window}`,
  /** Calls of services within a window that the provider states. @param window names it by its end */
  statedCalls: (appId: string, whom: string, window: number) =>
    `stated-calls:{${appId}}:${hashOf(whom).slice(0, 22)}:${window}`,
  limit: (kind: string, whom: string, minute: number) => `limit:{${kind}:${hashOf(whom).slice(0, 22)}}:${minute}`,
  webhook: (id: string) => `webhook:{webhooks}:${id}`,
  webhooks: 'webhooks:{webhooks}',
  webhookMessage: (id: string) => `webhook-message:{webhooks}:${id}`,
  webhookDue: 'webhook-due:{webhooks}',
  webhookMessages: (webhookId: string) => `webhook-messages:{webhooks}:${webhookId}`,
  planAccount: (accountId: string) => `plan-account:{${accountId}}`,
  apiKey: (keyHash: string) => `api-key:{${keyHash}}`,
  planRequests: 'plan-requests',
  planSignIns: (browserId: string) => `plan-sign-ins:{${hashOf(browserId)}}`,
  planUse: (subject: string, month: string) => `plan-use:{${subject}}:${month}`,
  planOveruse: (subject: string) => `plan-overuse:{${subject}}`,
  planBan: (subject: string) => `plan-ban:{${subject}}`,
} as const;

/** The kinds of indexes whose members are ids of the entries of a log, which each store makes of its own. */
export const LOG_OF_INDEX: Readonly<Record<string, string>> = Object.fromEntries(
  AUDIT_FACETS.map((facet) => [`audit-${facet}`, keys.auditLog]),
);
