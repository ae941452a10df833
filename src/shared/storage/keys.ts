/**
 * Every key of the storage with its content and lifetime, and every channel. Some channels are defined by the files
 * that use them. The part in braces is the slot tag: keys that change together have the same tag.
 *
 * | key | holds | lifetime |
 * | --- | --- | --- |
 * | `key-check` | a constant text (sealed), which proves at the start that the keys fit the data | for ever |
 * | `key-check:KID` | the same text, sealed by that key, which reveals two different keys with one id | until that key is dropped |
 * | `schema` | the schema version of the storage, the version of the oldest program that can read it, and the identity of the storage, which no copy has | for ever |
 * | `key-rotation` | the last rotation that an administrator started: key, progress, result | 30 days |
 * | lease `key-rotation-lease` | which process works on it | 15 s after its holder's last renewal |
 * | index `keys-in-use` | ids of the keys that may have sealed records, by first use | until a key is dropped |
 * | index `keys-replaced` | ids of the keys that a rotation replaced, or that were given up, by that time | for ever |
 * | `out-of-service` | marks a storage that is being filled, is being moved, or was moved, so that no server starts with it | until filled; 20 s after the migration's last renewal; for ever |
 * | lease `storage-copy` | which command fills or moves this storage | 10 s after its holder's last renewal |
 * | channel `key-roll-call`, `key-roll-call:CALLER` (`key-roll-call.ts`) | a call to all processes, and the response of each with its keys | |
 * | `session:{ID_HASH}` | the session of one browser (sealed), or the tombstone of an ended session | until its last possible use |
 * | `session-id-token:{ID_HASH}` | the ID token with which that session began (sealed) | until the session ends or expires |
 * | `sessions-of:{USER}` | the user's sessions, at most 100, with id hash and start; and when the provider last ended all of them | 60 s longer than its newest session can last |
 * | `sessions-of-sid:{SID_HASH}` | the same by issuer and the provider's `sid` | the same |
 * | `logout-token:{TOKEN_HASH}` | marks a provider's logout token as used, by issuer and `jti` | while the token could be accepted again |
 * | `problem:{REFERENCE}` | the failure behind the reference on an error page: time, code, route, user id, class of the cause | 30 days |
 * | `flash:{HASH}` | a notice or a new secret (sealed) for the page after a redirect, by session and redirect | 60 s, or until read |
 * | `kept-form:{HASH}` | the last 8 forms, without their secrets, that a session sent to a page that shows them with their faults or next step (sealed) | 1 hour after the last |
 * | `submission:{HASH}` | the result of a submitted form, by session, form and values; empty while the request runs | 60 s |
 * | `pending-requests:{sign-ins}:BROWSER_HASH` | the pending authorization requests of one secret of a browser, at most 10, and its last 10 whose callback has come; paths with the secret of a connect link are sealed | 600 s |
 * | `grant:{USER}:APP` | one grant (sealed whole): tokens, journal of its refresh, health | until disconnected |
 * | `last-use:{USER}:APP` | when that grant was last used, to five minutes | with the grant |
 * | lease `refresh-lease:{USER}:APP` | which process refreshes that grant | 4 to 6.5 s, by `REDIS_TIMEOUT_MS`, after its holder's last renewal |
 * | `awaited-refresh:{USER}:APP` | since when a request that needs the access token of that grant waits for another refresh of it | 30 s, or until the request has its turn |
 * | `narrowing:{USER}:APP:TOKEN` | when a service last caused a refresh of that grant for a token with fewer scopes | 60 s while the refresh runs, 30 s after its end |
 * | index `open-refreshes` | user and app of refreshes that may be unfinished, and of imported grants that were not refreshed yet, by start | until settled |
 * | `connection-id:{ID}` | user and app of the connection with that id | until the connection ends or gets another id; for ever if its record cannot be read |
 * | index `grants:{USER}` | app ids of the user's grants by time of connecting | with the grants |
 * | `observation:{APP}` | properties of the app's tokens in the last sign-in and refresh, for the doctor | for ever |
 * | `app-registration:{APP}` | the registration by which the app's connections are listed | for ever |
 * | `app-check:{APP}` | the last check of that app: when, and its findings | 60 days, or until the app is deleted |
 * | `bin:{BIN}` | the response of the BIN lookup service, fresh for 30 days | 180 days; "not found": 1 day |
 * | lease `bin-call:{BIN}` | which process calls the BIN lookup service for that BIN | 3 s after its holder's last renewal |
 * | counter `bin-quota:{YYYY-MM}` | calls to the BIN lookup service in that UTC month | 100 days |
 * | counter `bin-calls:{USER}:YYYY-MM-DD`, `bin-calls:{TOKEN}:YYYY-MM` | the calls caused by one user in that UTC day, by one relay token in that UTC month | 3 days, 100 days |
 * | log `audit:{audit}` | the audit trail, an entry for each event | `AUDIT_DAYS`, at most 1,000,000 changes and 1,000,000 other entries |
 * | index `audit-all:{audit}`, `audit-changes:{audit}`, `audit-others:{audit}` | ids of its entries by time: of all, of changes, and of the others | with the entries |
 * | index `audit-event:{audit}:VALUE_HASH`, `audit-actor:{audit}:VALUE_HASH`, `audit-target:{audit}:VALUE_HASH` | the same for one event, for one actor, and for one affected user or object | with the entries |
 * | index `audit-app:{audit}:VALUE_HASH` | the same for one connected app and one part of its timeline, without calls by services | with the entries |
 * | `connected-app:{connected-apps}:ID` | one connected app that an administrator registered, with its client secret (sealed) | until deleted |
 * | index `connected-apps:{connected-apps}` | ids of registered apps by time of registration | with the apps |
 * | `connected-apps-change:{connected-apps}` | a record whose version grows with each change, so that every process notices it | for ever |
 * | channel `connected-apps` (`gatehouse/connected-apps/app-registry.ts`) | an empty message for each change of an app | |
 * | `admin-token:{admin-tokens}:ID` | one admin token (sealed): name, scope, expiry, hash of its secret | until revoked |
 * | `admin-token-use:{admin-tokens}:ID` | when it was last used, to the minute | with the token |
 * | index `admin-tokens:{admin-tokens}` | ids of admin tokens by time of creation | with the tokens |
 * | `user:{USER}` | one user: issuer, subject, name, address, first and last sign-in, whether disabled or being deleted, last sign-out everywhere | until deleted |
 * | `erased-user:{USER}` | when that user was deleted, so that an earlier sign-in stores nothing | 15 minutes |
 * | index `erasures` | user and time of unfinished deletions of users, by that time | until finished |
 * | index `users:{users}` | ids of all users by last sign-in | with the users |
 * | index `user-names:{users}` | the same by search terms: name, its words, address, id, subject | with the users |
 * | index `live-sessions:{users}` | hashes of the ids of all sessions by start | until soon after the sessions end |
 * | index `connections:{connections}`, `connections:{connections}:app:APP`, `connections:{connections}:state:STATE` | user and app of grants by time of connecting: of all grants, of one app, in one state, and of grants that may lack scopes of their app | with the grants |
 * | `revocation:{USER}:ID` | a token (sealed) whose revocation the provider has not confirmed; USER is `nobody` if the token belongs to no user, and remains the id of a deleted user | until confirmed, at most 7 days |
 * | index `revocations-of:{USER}`, `revocations` | ids of the revocations: of one user by time, and of all by time of the next attempt | with the revocations |
 * | `sign-in:{sign-ins}:ID` | one sign-in attempt without secrets: steps, outcome and cause | 32 days |
 * | `sign-in-return:{sign-ins}:ID` | where that attempt was to lead (sealed), if its callback has come and that is not the usual place | 30 days, or until the attempt is deleted |
 * | `sign-in-alias:{sign-ins}:HASH` | the id of the attempt with that state or reference | 32 days |
 * | index `sign-ins:{sign-ins}:LIST` | ids of attempts by start: `all` (at most 50,000), `open` (at most 2,000), `failed`, and `of:HASH` of one user, e-mail address or browser | 30 days |
 * | `disconnect-job:{disconnect-jobs}:APP` | the progress of disconnecting all users from that app | 30 days |
 * | index `disconnect-jobs:{disconnect-jobs}` | apps with an unfinished job, by start | until done |
 * | `connect-link:{connect-links}:ID` | one connect link (sealed): user, app, scopes, return URL, hash of its secret | 30 minutes, or until revoked |
 * | index `connect-links:{connect-links}` | ids of connect links by time of creation | until a later link is created |
 * | index `connect-links:{connect-links}:all`, `connect-links:{connect-links}:user:USER`, `connect-links:{connect-links}:app:APP`, `connect-links:{connect-links}:relay-token:TOKEN` | id, user, app and relay token of connect links by time of creation: of all, of one user, of one app, of one relay token | until the link is ended, or a later one is created |
 * | index `connect-links:{connect-links}:open:TOKEN:USER:APP` | ids of the links of one relay token, user and app that may be open, in the order of their creation | until an eleventh link, or as above |
 * | `connect-ticket:{USER}:ID` | exists while this link can be used | 30 minutes, or until used or revoked |
 * | `connection-check:APP` | the position in the list of an app's connections up to which idle ones were looked for, and when | 1 day |
 * | `setup-steps` | which steps of the setup an administrator has dismissed | for ever |
 * | `tally:{MINUTES}`, `tally:{HOUR}`, `tally:{DAY}` | the number of events of each kind in those five minutes, that hour or that day (UTC) | 1 day, 3 days, 62 days |
 * | lease `task:NAME` | which process does that scheduled task | 30 s after its holder's last renewal |
 * | `bin-lookup-service-pause` | the time until which the BIN lookup service must not be called (429) | until that time |
 * | `bin-lookup-service-health` | the last success and the last failure of the BIN lookup service | 100 days |
 * | counter `bin-lookups:{YYYY-MM}:OUTCOME` | lookups in that UTC month by source of the data, or by problem | 100 days |
 * | `bin-dataset` | the imported BIN data set in use and the previous one, each with source, date, licence and bad rows | until the next import |
 * | `bin-dataset:{ID}:N` | a part of an imported BIN data set, compressed and in base64 | until the import after the next |
 * | `bin-dataset-upload:{bin-dataset}` | an uploaded BIN data set that waits for its import: source, date, licence, bad rows, expected changes | 1 hour, or until imported, discarded or replaced; its parts too |
 * | index `bin-dataset-versions` | ids of data sets that may have parts, by time of import | with the parts |
 * | channel `bin-dataset` (`gatehouse/bin/stored-dataset.ts`) | the id of the data set that is now in use | |
 * | `own-keys` | the signing keys of Gatehouse (sealed) | for ever |
 * | `relay-token:{relay}:ID` | one relay token (sealed): name, policy, hashes of its secrets | until revoked |
 * | `relay-token-use:{relay}:ID` | when it was last used, to the minute, and from which address | with the token |
 * | index `relay-tokens:{relay}` | ids of relay tokens by time of creation | with the tokens |
 * | channel `relay-tokens` (`gatehouse/relay/relay-token.ts`) | the id of a relay token that changed | |
 * | `service-account:{relay}:ID` | one service account: name, app, platform API token (sealed) | until deleted |
 * | index `service-accounts:{relay}` | ids of service accounts by time of creation | with the accounts |
 * | `relay-uses:{OWNER}:YYYY-MM-DD` | calls with one relay token, or to one app, in that UTC day: by hour, scope, result, and app or token | 31 days |
 * | `relay-uses-of:{USER}:APP` | the services that used that grant, at most 50: name, last time, count, and calls by the hour in the last 30 days | with the grant |
 * | counter `provider-calls:{APP}:OWNER:WINDOW` | calls to the app's platform in those 10 s, by all users or by one, and by one relay token for them (hash) | 90 s |
 * | channel `provider-budget` (`gatehouse/platform/provider-budget.ts`) | which calls to a platform are paused, and until when | |
 * | counter `stated-calls:{APP}:OWNER:CELL` | calls by services in a window that the platform states, for all users or for one, and by one relay token for them (hash); each call counts in two cells | 60 s longer than the window |
 * | counter `limit:{KIND:CALLER}:MINUTE` | requests of one caller (hash) in that minute, once there are many | 120 s |
 * | `webhook:{webhooks}:ID` | one webhook (sealed): address, events, signing secrets | until deleted |
 * | index `webhooks:{webhooks}` | ids of webhooks by time of creation | with the webhooks |
 * | `webhook-response:{webhooks}:ID` | when that webhook was last sent a message, and the status of the response | with the webhook |
 * | `webhook-failing:{webhooks}:ID` | since when every attempt to send to it has failed | until one succeeds |
 * | `webhook-message:{webhooks}:ID` | one message to one webhook: text, and attempts with the beginning of each response | 30 days |
 * | index `webhook-due:{webhooks}` | ids of pending messages by time of the next attempt | until delivered or failed |
 * | index `webhook-messages:{webhooks}:WEBHOOK` | ids of that webhook's messages by time | with the messages, at most 200 |
 * | `plan-account:{ACCOUNT}` | (BIN lookup service, as all that follow) one account with its plan and the hashes of its keys | for ever |
 * | `api-key:{KEY_HASH}` | the account of that key | until revoked |
 * | index `plan-requests` | unconfirmed orders of plans (account and order), by time of order | until confirmed |
 * | `plan-sign-ins:{BROWSER_HASH}` | hashes of the states of that browser's pending authorization requests, at most 10, and how its last 10 refused ones ended | 600 s |
 * | counter `plan-use:{SUBJECT}:YYYY-MM` | lookups of an address or account in that UTC month | 100 days |
 * | counter `plan-overuse:{SUBJECT}` | recent refusals | the duration of a ban |
 * | counter `plan-ban:{SUBJECT}` | the second in which a ban ends | until that second |
 */
import { hash } from 'node:crypto';

/**
 * Returns the SHA-256 of a secret in base64url. Keys contain this hash, so a copy of the store does not reveal the
 * secret.
 */
export function hashOf(secret: string): string {
  return hash('sha256', secret, 'base64url');
}

export interface SchemaVersion {
  version: number;
  /** The `version` of the oldest program that can read what this program writes. */
  oldestReader: number;
}

/**
 * The version of this program. `version` rises with each release that stores a record in a new form, and `oldestReader`
 * rises if programs of the previous version cannot read that form. A new field raises neither, because older programs
 * preserve it.
 */
export const SCHEMA: SchemaVersion = { version: 8, oldestReader: 8 };

/**
 * The `version` of the oldest storage that this program can read. Until 1.0.0, each change of a stored form raises it
 * and both numbers of `SCHEMA`. From 1.0.0 on it stays, because a storage of a later release still has records that
 * 1.0.0 wrote.
 */
export const OLDEST_READABLE = 8;

/** Returns the kind of a key: the word before the first colon or brace. */
export function kindOf(key: string): string {
  return key.slice(0, /[:{]|$/.exec(key)?.index);
}

/**
 * The kinds of records that are sealed, wholly or in part, and what happens to them if their key is lost: `preserved`,
 * so that users or administrators see the loss and repair it, or `deleted`, because they are not needed or are created
 * again.
 */
export const SEALED_KINDS: Readonly<Record<string, 'preserved' | 'deleted'>> = {
  'key-check': 'deleted',
  session: 'deleted',
  grant: 'preserved',
  'session-id-token': 'deleted',
  'connected-app': 'preserved',
  'admin-token': 'deleted',
  'relay-token': 'deleted',
  'own-keys': 'deleted',
  'service-account': 'preserved',
  flash: 'deleted',
  'kept-form': 'deleted',
  'pending-requests': 'deleted',
  'sign-in-return': 'deleted',
  webhook: 'preserved',
  revocation: 'preserved',
  'connect-link': 'deleted',
};

/**
 * The kinds whose writes need not wait for the disk. A power cut may undo the last of these writes, which does no harm
 * (R51 names the kinds that it must not undo). A kill undoes nothing, and a later durable write flushes them as well.
 * On Redis, its settings for durability apply instead.
 */
export const RELAXED_KINDS: ReadonlySet<string> = new Set([
  'pending-requests',
  'sign-in',
  'sign-in-alias',
  'sign-in-return',
  'sign-ins',
  'live-sessions',
  'last-use',
  // Written before the grant, whose durable write flushes it as well.
  'connection-id',
  'relay-uses',
  'relay-uses-of',
  'limit',
  'problem',
  'kept-form',
  'plan-use',
  'narrowing',
  'awaited-refresh',
]);

export function isRelaxed(key: string): boolean {
  return RELAXED_KINDS.has(kindOf(key));
}

/**
 * The kinds of records that list other records. Such a list is written before the records, so a copy that takes time
 * must read it last.
 */
export const LISTING_KINDS: readonly string[] = ['sessions-of', 'sessions-of-sid'];

/** The indexes of the audit trail. */
const AUDIT_FACETS = ['all', 'changes', 'others', 'event', 'actor', 'target', 'app'] as const;

export const keys = {
  keyCheck: 'key-check',
  keyCheckOf: (kid: string) => `key-check:${kid}`,
  schema: 'schema',
  keysInUse: 'keys-in-use',
  keysReplaced: 'keys-replaced',
  keyRotation: 'key-rotation',
  keyRotationLease: 'key-rotation-lease',
  outOfService: 'out-of-service',
  storageCopy: 'storage-copy',
  /**
   * Not a record, but the owner of a backup's sealed digest. It equals no `keyCheckOf`, since no key id contains a
   * brace.
   */
  backupSeal: 'key-check:{backup}',
  session: (idHash: string) => `session:{${idHash}}`,
  sessionIdToken: (idHash: string) => `session-id-token:{${idHash}}`,
  sessionsOfUser: (userId: string) => `sessions-of:{${userId}}`,
  /** @param id the hash of issuer and `sid` together */
  sessionsOfProviderSession: (id: string) => `sessions-of-sid:{${id}}`,
  logoutToken: (issuer: string, jti: string) => `logout-token:{${hashOf(JSON.stringify([issuer, jti]))}}`,
  flash: (hash: string) => `flash:{${hash}}`,
  keptForm: (hash: string) => `kept-form:{${hash}}`,
  submission: (hash: string) => `submission:{${hash}}`,
  problem: (reference: string) => `problem:{${reference.toLowerCase()}}`,
  pendingRequests: (browserSecret: string) => `pending-requests:{sign-ins}:${hashOf(browserSecret).slice(0, 22)}`,
  grant: (userId: string, appId: string) => `grant:{${userId}}:${appId}`,
  lastUse: (userId: string, appId: string) => `last-use:{${userId}}:${appId}`,
  refreshLease: (userId: string, appId: string) => `refresh-lease:{${userId}}:${appId}`,
  awaitedRefresh: (userId: string, appId: string) => `awaited-refresh:{${userId}}:${appId}`,
  narrowing: (userId: string, appId: string, relayTokenId: string) => `narrowing:{${userId}}:${appId}:${relayTokenId}`,
  unfinishedRefreshes: 'open-refreshes',
  grants: (userId: string) => `grants:{${userId}}`,
  connectionId: (id: string) => `connection-id:{${id}}`,
  observation: (appId: string) => `observation:{${appId}}`,
  appCheck: (appId: string) => `app-check:{${appId}}`,
  connectedApp: (id: string) => `connected-app:{connected-apps}:${id}`,
  connectedApps: 'connected-apps:{connected-apps}',
  connectedAppsChange: 'connected-apps-change:{connected-apps}',
  adminToken: (id: string) => `admin-token:{admin-tokens}:${id}`,
  adminTokenUse: (id: string) => `admin-token-use:{admin-tokens}:${id}`,
  adminTokens: 'admin-tokens:{admin-tokens}',
  bin: (bin: string) => `bin:{${bin}}`,
  binQuota: (month: string) => `bin-quota:{${month}}`,
  /** @param caller id of a user or a relay token. @param period UTC day or month */
  binCallsOf: (caller: string, period: string) => `bin-calls:{${caller}}:${period}`,
  user: (userId: string) => `user:{${userId}}`,
  erasedUser: (userId: string) => `erased-user:{${userId}}`,
  erasures: 'erasures',
  users: 'users:{users}',
  userNames: 'user-names:{users}',
  liveSessions: 'live-sessions:{users}',
  connections: (list: 'all' | 'app' | 'state', value = '') =>
    list === 'all' ? 'connections:{connections}' : `connections:{connections}:${list}:${value}`,
  revocation: (userId: string, id: string) => `revocation:{${userId}}:${id}`,
  revocationsOf: (userId: string) => `revocations-of:{${userId}}`,
  revocations: 'revocations',
  signIn: (id: string) => `sign-in:{sign-ins}:${id}`,
  signInReturn: (id: string) => `sign-in-return:{sign-ins}:${id}`,
  signInAlias: (alias: string) => `sign-in-alias:{sign-ins}:${hashOf(alias).slice(0, 22)}`,
  signIns: (list: 'all' | 'open' | 'failed' | 'of', owner = '') =>
    `sign-ins:{sign-ins}:${list}${list === 'of' ? `:${hashOf(owner).slice(0, 22)}` : ''}`,
  disconnectJob: (appId: string) => `disconnect-job:{disconnect-jobs}:${appId}`,
  connectionCheck: (appId: string) => `connection-check:${appId}`,
  appRegistration: (appId: string) => `app-registration:{${appId}}`,
  connectLink: (id: string) => `connect-link:{connect-links}:${id}`,
  connectLinks: 'connect-links:{connect-links}',
  allConnectLinks: 'connect-links:{connect-links}:all',
  connectLinksOf: (list: 'user' | 'app' | 'relay-token', id: string) => `connect-links:{connect-links}:${list}:${id}`,
  openConnectLinks: (relayTokenId: string, userId: string, appId: string) =>
    `connect-links:{connect-links}:open:${relayTokenId}:${userId}:${appId}`,
  connectTicket: (userId: string, id: string) => `connect-ticket:{${userId}}:${id}`,
  disconnectJobs: 'disconnect-jobs:{disconnect-jobs}',
  setupSteps: 'setup-steps',
  tally: (interval: string) => `tally:{${interval}}`,
  taskLease: (name: string) => `task:${name}`,
  binServicePause: 'bin-lookup-service-pause',
  binServiceHealth: 'bin-lookup-service-health',
  binCall: (bin: string) => `bin-call:{${bin}}`,
  binLookups: (month: string, outcome: string) => `bin-lookups:{${month}}:${outcome}`,
  binDataset: 'bin-dataset',
  binDatasetPart: (id: string, part: number) => `bin-dataset:{${id}}:${part}`,
  binDatasetUpload: 'bin-dataset-upload:{bin-dataset}',
  binDatasetVersions: 'bin-dataset-versions',
  auditLog: 'audit:{audit}',
  /** @param value the event, actor, user, object or app; it is hashed, because users may have typed it */
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
  relayUses: (owner: 'token' | 'app', id: string, day: string) => `relay-uses:{${owner}:${id}}:${day}`,
  relayUsesOf: (userId: string, appId: string) => `relay-uses-of:{${userId}}:${appId}`,
  /** @param owner `all`, or the id of a user of the app */
  providerCalls: (appId: string, owner: string, window: number) =>
    `provider-calls:{${appId}}:${owner === 'all' ? owner : hashOf(owner).slice(0, 22)}:${window}`,
  /** @param cell number of the time cell in which a window that the platform states ends, or of the next cell */
  statedCalls: (appId: string, owner: string, cell: number) =>
    `stated-calls:{${appId}}:${hashOf(owner).slice(0, 22)}:${cell}`,
  limit: (kind: string, caller: string, minute: number) => `limit:{${kind}:${hashOf(caller).slice(0, 22)}}:${minute}`,
  webhook: (id: string) => `webhook:{webhooks}:${id}`,
  webhooks: 'webhooks:{webhooks}',
  webhookResponse: (id: string) => `webhook-response:{webhooks}:${id}`,
  webhookFailing: (id: string) => `webhook-failing:{webhooks}:${id}`,
  webhookMessage: (id: string) => `webhook-message:{webhooks}:${id}`,
  webhookDue: 'webhook-due:{webhooks}',
  webhookMessages: (webhookId: string) => `webhook-messages:{webhooks}:${webhookId}`,
  planAccount: (accountId: string) => `plan-account:{${accountId}}`,
  apiKey: (keyHash: string) => `api-key:{${keyHash}}`,
  planRequests: 'plan-requests',
  planSignIns: (browserSecret: string) => `plan-sign-ins:{${hashOf(browserSecret)}}`,
  planUse: (subject: string, month: string) => `plan-use:{${subject}}:${month}`,
  planOveruse: (subject: string) => `plan-overuse:{${subject}}`,
  planBan: (subject: string) => `plan-ban:{${subject}}`,
} as const;

/** The log of each kind of index whose members are ids of log entries. These ids differ between stores. */
export const LOG_OF_INDEX: Readonly<Record<string, string>> = Object.fromEntries(
  AUDIT_FACETS.map((facet) => [`audit-${facet}`, keys.auditLog]),
);
