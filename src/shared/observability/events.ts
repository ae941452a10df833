/** Business events: a function for each. They go to the log, the metrics and the listeners. */
import type { Logger } from 'pino';
import type { LABEL_VALUES, Metrics } from './metrics.ts';
import type { StorageFault } from './storage-watch.ts';

type Level = 'info' | 'warn' | 'error';

export type SignInOutcome = (typeof LABEL_VALUES.signIns)[number];
type RefreshOutcome = (typeof LABEL_VALUES.refreshes)[number];

/** The address and the id of a request, for the audit trail. */
export interface Origin {
  address?: string | undefined;
  requestId?: string | undefined;
}

/** The actor of an event, if the user did not cause it. */
export interface By {
  kind: 'user' | 'administrator' | 'admin_token' | 'system' | 'anonymous';
  id?: string | undefined;
  name?: string | undefined;
}

/** The events. Facts never contain a token, a secret, a URL with a query or digits. Ids are those of Gatehouse. */
export interface Events {
  signInStarted(facts: { app: string; purpose: 'sign_in' | 'connect'; userId?: string | undefined }): void;
  /** A requested return address is not allowed. A bounded number is emitted. `requested`: without query and secrets. */
  returnRefused(facts: {
    route: string;
    app?: string | undefined;
    requested: string;
    reason: string;
    used: string;
    origin?: Origin | undefined;
  }): void;
  signInEnded(facts: {
    app: string;
    outcome: SignInOutcome;
    reason?: string;
    /** The provider's error code. */
    providerError?: string | undefined;
    userId?: string | undefined;
    userName?: string | undefined;
    /** The `acr` of a step-up for the admin pages. */
    steppedUp?: string | undefined;
    reference?: string;
    /** The callback had no pending request, so the event is logged and not stored. */
    unsolicited?: true;
    origin?: Origin | undefined;
  }): void;
  /** `session`: the ended session, if the user or an administrator chose one. */
  signedOut(facts: {
    userId: string;
    everywhere: boolean;
    session?: string | undefined;
    by?: By | undefined;
    origin?: Origin | undefined;
  }): void;
  /** A back-channel logout. `sessions`: the number of ended sessions. */
  providerSignedOut(facts: {
    app: string;
    outcome: 'ended' | 'refused';
    reason?: string;
    sessions?: number;
    userId?: string | undefined;
    origin?: Origin | undefined;
  }): void;
  /** `repeated`: the previous refresh failed, too, so the health of the connection is unchanged. */
  refreshEnded(facts: {
    userId: string;
    app: string;
    connection: string;
    outcome: RefreshOutcome;
    reason?: string | undefined;
    repeated?: boolean | undefined;
    /** The called host. */
    host?: string | undefined;
    /** The duration of the call. */
    seconds?: number | undefined;
  }): void;
  connectionCreated(facts: {
    userId: string;
    app: string;
    connection: string;
    scopes: readonly string[];
    /** The id of the used connect link. */
    link?: string | undefined;
    /** The audit trail already has an entry. */
    audited?: boolean | undefined;
    origin?: Origin | undefined;
  }): void;
  connectionRemoved(facts: {
    userId: string;
    app: string;
    /** Undefined if its record could not be read. */
    connection: string | undefined;
    revocation: 'revoked' | 'unsupported' | 'unconfirmed' | 'pending';
    /** The provider's status and error code, where it was called. */
    reply?: { status?: number | undefined; error?: string | undefined } | undefined;
    by?: By | undefined;
    /** The audit trail already has an entry. */
    audited?: boolean | undefined;
    origin?: Origin | undefined;
  }): void;
  /** The connection works again, automatically or after a new consent. */
  connectionRecovered(facts: { userId: string; app: string; connection: string; origin?: Origin | undefined }): void;
  reconnectNeeded(facts: { userId: string; app: string; connection: string; cause: string }): void;
  /** All data of a user have been deleted. `by`: undefined for a deletion that was finished later. */
  userErased(facts: { userId: string; by?: By | undefined; origin?: Origin | undefined }): void;
  /** Connections whose tokens the app may no longer use, because its registration has changed. */
  connectionsSetAside(facts: { app: string; name: string; count: number }): void;
  /** The app now requires scopes that the connection lacks. */
  scopesMissing(facts: { userId: string; app: string; connection: string; scopes: readonly string[] }): void;
  /** The end of a revocation that did not succeed at first. `abandoned`: retried until the time limit. */
  revocationEnded(facts: {
    userId: string;
    app: string;
    /** Undefined if no connection had the token. */
    connection: string | undefined;
    outcome: 'confirmed' | 'abandoned';
  }): void;
  /** A counted call of a service. Not logged: the audit trail has an entry for each kind of call and hour. */
  relayCalled(facts: { app: string | undefined; outcome: 'succeeded' | 'failed' | 'refused' }): void;
  binLookedUp(facts: { result: string; count: number }): void;
  binServiceFailed(facts: { reason: string }): void;
  /** This process now uses an imported data set. */
  binDatasetLoaded(facts: { source: string; rows: number; badRows: number; conflicts: number }): void;
  /** The imported data set cannot be read; the previous one remains in use. */
  binDatasetFailed(facts: { cause: unknown }): void;
  /** A response of the BIN lookup service could not be cached. */
  binCacheFailed(facts: { cause: unknown }): void;
  /** An account of the BIN lookup service has its requested plan. */
  planConfirmed(facts: { account: string; plan: string; order: string }): void;
  /** The stored signing keys could not be opened and were replaced. */
  ownKeysReplaced(facts: { cause: unknown }): void;
  /** An unexpected error ended a rotation of the encryption keys. */
  keyRotationFailed(facts: { cause: unknown }): void;
  /** The problems of a connected app differ from those of the previous scheduled check. `problems`: their names. */
  appCheckChanged(facts: { app: string; name: string; problems: readonly string[] }): void;
  /** An entry of the audit trail, for log shippers: the field `audit` of the log line. */
  audited(facts: { audit: object }): void;
  /** Entries that the audit trail could not store; their events are in the log. */
  auditLost(facts: { entries: number }): void;
  /** Events of connections whose webhook messages could not be stored. */
  announcementsLost(facts: { events: number }): void;
  /** Connections whose entries in the lists could not be stored. */
  listingsLost(facts: { connections: number }): void;
  /** Counts in memory that could not be stored. */
  countsLost(facts: { kind: (typeof LABEL_VALUES.countsLost)[number]; counts: number }): void;
  /** `X-Forwarded-For` came from a peer that is not in `TRUSTED_PROXIES`, or had no address. Emitted once per fault. */
  forwardedFault(fault: 'untrusted' | 'unreadable', peer: string): void;
  /** A proxy names another host than `PUBLIC_URL` does. Emitted once for each host. */
  hostFault(fault: { peer: string; isTrusted: boolean; seen: string; expected: string }): void;
  /** @param text names the setting and never its value */
  settingWarned(text: string): void;
  redisUnprotected(): void;
  /** At the start: a failover of the storage would lose its last writes. */
  failoverLosesWrites(kind: 'sentinels' | 'cluster'): void;
  /** Another server of the storage took over, which may lack the last writes. */
  storageFailedOver(facts: { storage: string }): void;
  /** The storage accepts no writes, or is refused. */
  storageLost(facts: StorageFault): void;
  /** The storage accepts writes again. `seconds`: the time for which it did not. */
  storageBack(facts: { storage: string; seconds: number }): void;
  /** A flush of the embedded database was slow; at most once a minute. */
  storageSlow(facts: { storage: string; milliseconds: number }): void;
  /** The log of the embedded database could not be copied into its file; retried once the log has grown. */
  checkpointFailed(facts: { storage: string; cause: unknown }): void;
  /** The names of the changed settings and apps; undefined if none. `restartNeeded`: applied at the next start. */
  settingsReloaded(facts: {
    settings?: readonly string[] | undefined;
    restartNeeded?: readonly string[] | undefined;
    appsAdded?: readonly string[] | undefined;
    appsChanged?: readonly string[] | undefined;
    appsRemoved?: readonly string[] | undefined;
  }): void;
  /**
   * A lookup of a host name takes longer than a second. `repeated`: not logged, as the name was logged within a minute.
   */
  nameSlow(facts: { host: string; repeated?: true | undefined }): void;
  /** A reload was refused, and changed nothing. Each fault says what to do, and contains no secret. */
  reloadRefused(facts: { faults: readonly string[]; cause?: unknown }): void;
  /** A sealed record cannot be opened and is treated as absent. `kind`: the prefix of its key. */
  recordRefused(facts: { kind: string; reason: string }): void;
  /** The system clock was set while the process ran; `seconds` is negative if it was set back. */
  clockJumped(facts: { seconds: number }): void;
  /** The end of each request, if `ACCESS_LOG` is on. `route`: the pattern of the route. */
  requestEnded(facts: {
    method: string;
    route: string;
    /** The method and pattern of the declared route of a platform that was called. */
    platformRoute?: string | undefined;
    status: number;
    seconds: number;
    incomplete?: true;
  }): void;
  requestFailed(facts: {
    requestId: string;
    /** The `instance` of the problem, if it differs from the request id. */
    instance?: string | undefined;
    route: string;
    /** As in `requestEnded`. */
    platformRoute?: string | undefined;
    /** Undefined if it could not be read. */
    method: string | undefined;
    code: string;
    status: number;
    detail?: string | undefined;
    /** The app and host of the outgoing call that failed. */
    app?: string | undefined;
    host?: string | undefined;
    cause?: unknown;
  }): void;
}

/** Functions for the events that a listener receives. */
export type EventListener = Partial<Events>;

export interface EventSource extends Events {
  /** Adds a listener. It must not throw. */
  listen(listener: EventListener): void;
}

type Facts = { [Name in keyof Events]: Parameters<Events[Name]> };

export function createEvents(parts: { logger: Logger; metrics: Metrics }): EventSource {
  const log = loggedEvents(parts);
  const listeners: { [Name in keyof Facts]?: (...facts: Facts[Name]) => void }[] = [log];
  const dispatch =
    <Name extends keyof Facts>(name: Name) =>
    (...facts: Facts[Name]): void => {
      for (const listener of listeners) listener[name]?.(...facts);
    };
  const names = Object.keys(log) as (keyof Events)[];
  const events = Object.fromEntries(names.map((name) => [name, dispatch(name)])) as unknown as Events;
  return { ...events, listen: (listener) => void listeners.push(listener) };
}

/** Returns the functions that log and count the events. */
function loggedEvents({ logger, metrics }: { logger: Logger; metrics: Metrics }): Events {
  /** Logs the facts without the name of the user, which only the audit trail has, and with the id of the request. */
  const line =
    (level: Level, text: string) =>
    ({
      origin,
      userName: _name,
      audited: _audited,
      ...facts
    }: Record<string, unknown> & { origin?: Origin | undefined }) =>
      logger[level](origin?.requestId ? { ...facts, requestId: origin.requestId } : facts, text);
  const failure =
    (level: Level, text: string) =>
    ({ cause, ...facts }: { cause?: unknown }) =>
      logger[level]({ ...facts, err: cause }, text);
  // These lines are logged at any `LOG_LEVEL`, because log shippers collect them.
  const trail = logger.child({}, { level: 'info' });
  return {
    signInStarted: line('info', 'sign-in started'),
    returnRefused: line('warn', 'return address not allowed'),
    signInEnded(facts) {
      metrics.signIns.inc(facts.app, facts.outcome);
      line(facts.outcome === 'failed' ? 'warn' : 'info', 'sign-in ended')(facts);
    },
    signedOut: line('info', 'signed out'),
    providerSignedOut: (facts) => line(facts.outcome === 'ended' ? 'info' : 'warn', 'sign-out by the provider')(facts),
    refreshEnded(facts) {
      metrics.refreshes.inc(facts.app, facts.outcome);
      if (facts.seconds !== undefined) metrics.refreshDuration.observe(facts.app, facts.seconds);
      line(facts.outcome === 'refreshed' ? 'info' : 'warn', 'refresh ended')(facts);
    },
    connectionCreated(facts) {
      if (facts.link !== undefined) metrics.connectLinksUsed.inc();
      line('info', 'connection created')(facts);
    },
    connectionRemoved: line('info', 'connection removed'),
    connectionRecovered: line('info', 'connection recovered'),
    reconnectNeeded(facts) {
      metrics.reconnectsNeeded.inc({ cause: facts.cause });
      line('warn', 'reconnect needed')(facts);
    },
    userErased: line('info', 'user deleted'),
    connectionsSetAside: line('warn', 'connections set aside'),
    scopesMissing(facts) {
      metrics.scopesMissing.inc();
      line('info', 'scopes missing')(facts);
    },
    revocationEnded: (facts) => line(facts.outcome === 'confirmed' ? 'info' : 'error', 'revocation ended')(facts),
    relayCalled: ({ app, outcome }) => metrics.relayCalls.inc(app, outcome),
    binLookedUp: ({ result, count }) => metrics.binLookups.inc({ result }, count),
    binServiceFailed(facts) {
      metrics.binServiceFailures.inc({ reason: facts.reason });
      line('warn', 'BIN lookup service failed')(facts);
    },
    binDatasetLoaded: line('info', 'BIN data set loaded'),
    binDatasetFailed: failure('error', 'BIN data set cannot be read'),
    binCacheFailed: failure('warn', 'BIN cache failed'),
    planConfirmed: line('info', 'plan confirmed'),
    ownKeysReplaced: failure('warn', 'signing keys replaced'),
    keyRotationFailed: failure('error', 'key rotation failed'),
    appCheckChanged: (facts) => line(facts.problems.length > 0 ? 'warn' : 'info', 'connected app checked')(facts),
    audited: (facts) => trail.info(facts, 'audit'),
    auditLost(facts) {
      metrics.auditLost.inc(facts.entries);
      line('error', 'audit entries lost')(facts);
    },
    announcementsLost(facts) {
      metrics.announcementsLost.inc(facts.events);
      line('error', 'webhook messages lost')(facts);
    },
    listingsLost(facts) {
      metrics.listingsLost.inc(facts.connections);
      line('error', 'connections not listed')(facts);
    },
    countsLost(facts) {
      metrics.countsLost.inc({ kind: facts.kind }, facts.counts);
      line('error', 'counts lost')(facts);
    },
    forwardedFault(fault, peer) {
      logger.warn(
        { peer },
        fault === 'untrusted'
          ? 'X-Forwarded-For came from a peer that is not in TRUSTED_PROXIES: if it is your proxy, add its address'
          : 'X-Forwarded-For from a proxy in TRUSTED_PROXIES has no address: its callers count as one, with the address "unknown"',
      );
    },
    hostFault({ isTrusted, ...facts }) {
      logger.warn(
        facts,
        isTrusted
          ? 'X-Forwarded-Host from a proxy in TRUSTED_PROXIES is not the host of PUBLIC_URL: let the proxy set it to the host and port in the address of browsers, or correct PUBLIC_URL'
          : 'Host is not the host of PUBLIC_URL: let the proxy pass on the Host header of browsers with its port, or name the proxy in TRUSTED_PROXIES, or correct PUBLIC_URL',
      );
    },
    storageLost: line('error', 'storage lost'),
    storageBack: line('warn', 'storage is back'),
    storageSlow: line('warn', 'disk is slow'),
    checkpointFailed: failure('error', 'checkpoint failed'),
    settingWarned: (text) => logger.warn(text),
    redisUnprotected() {
      logger.warn(
        'The connection to Redis on another machine has no TLS: use rediss://, or a network that only you use',
      );
    },
    failoverLosesWrites(kind) {
      logger.warn(
        kind === 'sentinels'
          ? 'A failover would lose the last writes, because REDIS_DURABILITY is aof: a refresh token that was just renewed may be lost. Behind sentinels, set it to replicas'
          : 'A failover of a master of the Redis cluster would lose its last writes: a refresh token that was just renewed may be lost',
      );
    },
    storageFailedOver: line('warn', 'storage failed over'),
    settingsReloaded: (facts) => line(facts.restartNeeded ? 'warn' : 'info', 'settings reloaded')(facts),
    reloadRefused: failure('error', 'settings not reloaded: nothing has changed'),
    nameSlow({ host, repeated }) {
      metrics.slowNames.inc();
      if (!repeated) line('warn', 'host name slow to resolve')({ host });
    },
    recordRefused: line('warn', 'stored record refused'),
    clockJumped: line('warn', 'clock jumped: sessions and tokens expire by it'),
    requestEnded: ({ seconds, ...facts }) => trail.info({ ...facts, seconds: Number(seconds.toFixed(4)) }, 'request'),
    requestFailed(facts) {
      metrics.problems.inc({ code: facts.code });
      // Browsers cause this refusal, and nothing has failed.
      const hasFailed = facts.status >= 500 && facts.code !== 'not_prefetched';
      failure(hasFailed ? 'error' : 'info', 'request failed')(facts);
    },
  };
}
