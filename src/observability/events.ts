/** Owns what is told of each business event, to the log and to the metrics: one function per event, so that no caller formats a line. */
import type { Logger } from 'pino';
import type { LABEL_VALUES, Metrics } from './metrics.ts';

export type SignInOutcome = (typeof LABEL_VALUES.signIns)[number];

/** Where a request came from, for the audit trail. */
export interface Origin {
  address?: string | undefined;
  requestId?: string | undefined;
}

/** Who did it, where that is not the user whom it is about. */
export interface By {
  kind: 'user' | 'administrator' | 'admin_token' | 'system' | 'anonymous';
  id?: string | undefined;
  name?: string | undefined;
}

/** Ids are ours (user, app, request); nothing here takes a token, a secret, a URL with a query or a digit string. */
export interface Events {
  signInStarted(facts: { app: string; purpose: 'sign_in' | 'connect'; userId?: string | undefined }): void;
  signInEnded(facts: {
    app: string;
    outcome: SignInOutcome;
    reason?: string;
    userId?: string | undefined;
    userName?: string | undefined;
    /** The `acr` that the administration demanded and had. */
    steppedUp?: string | undefined;
    reference?: string;
    /** A callback that nobody is known to have started: it is logged, and leaves nothing in the store. */
    unsolicited?: true;
    origin?: Origin | undefined;
  }): void;
  /** `session`: the one that was ended, where it was chosen among others. */
  signedOut(facts: {
    userId: string;
    everywhere: boolean;
    session?: string | undefined;
    by?: By | undefined;
    origin?: Origin | undefined;
  }): void;
  /** A provider asked for sessions to be ended; `sessions`: how many were. */
  providerSignedOut(facts: {
    app: string;
    outcome: 'ended' | 'refused';
    reason?: string;
    sessions?: number;
    userId?: string | undefined;
    origin?: Origin | undefined;
  }): void;
  refreshEnded(facts: { userId: string; app: string; outcome: string; reason?: string | undefined }): void;
  connectionMade(facts: { userId: string; app: string; scopes: readonly string[]; origin?: Origin | undefined }): void;
  connectionRemoved(facts: {
    userId: string;
    app: string;
    revocation: string;
    /** The provider's status and error code, where it was asked. */
    said?: { status?: number | undefined; error?: string | undefined } | undefined;
    by?: By | undefined;
    /** It stands in the audit trail already. */
    audited?: boolean | undefined;
    origin?: Origin | undefined;
  }): void;
  /** It works again, by itself or because its user connected it once more. */
  connectionRecovered(facts: { userId: string; app: string; origin?: Origin | undefined }): void;
  connectionBroken(facts: { userId: string; app: string; cause: string }): void;
  /** A revocation that did not succeed at once. `abandoned`: tried for as long as makes sense. */
  revocationEnded(facts: { userId: string; app: string; outcome: 'confirmed' | 'abandoned' }): void;
  binLookedUp(facts: { source: string; count: number }): void;
  binServiceFailed(facts: { reason: string }): void;
  /** An imported data set counts in this process from now on. */
  binDatasetLoaded(facts: { source: string; rows: number; badRows: number }): void;
  /** The imported data set cannot be read; what counted before goes on. */
  binDatasetFailed(facts: { cause: unknown }): void;
  /** What the service answered was handed on, but could not be kept. */
  binCacheFailed(facts: { cause: unknown }): void;
  /** The kept signing keys could not be opened, and new ones stand in their place. */
  ownKeysReplaced(facts: { cause: unknown }): void;
  /** An entry that the audit trail keeps, for log shippers: marked by its field `audit`. */
  audited(facts: { audit: object }): void;
  /** Entries of the audit trail that could not be kept; their events are in the log. */
  auditLost(facts: { entries: number }): void;
  requestFailed(facts: {
    requestId: string;
    route: string;
    method: string;
    code: string;
    status: number;
    detail?: string | undefined;
    cause?: unknown;
  }): void;
}

export function createEvents(parts: { logger: Logger; metrics: Metrics }): Events {
  const { logger, metrics } = parts;
  // The trail is for whoever collects it, however quiet the rest of the log is kept.
  const trail = logger.child({}, { level: 'info' });
  return {
    signInStarted(facts) {
      logger.info(facts, 'sign-in started');
    },
    signInEnded({ userName: _name, ...given }) {
      const facts = told(given);
      metrics.signIns.inc({ outcome: facts.outcome });
      logger[facts.outcome === 'failed' ? 'warn' : 'info'](facts, 'sign-in ended');
    },
    signedOut(facts) {
      logger.info(told(facts), 'signed out');
    },
    providerSignedOut(facts) {
      logger[facts.outcome === 'ended' ? 'info' : 'warn'](told(facts), 'sign-out by the provider');
    },
    refreshEnded(facts) {
      metrics.refreshes.inc({ outcome: facts.outcome });
      logger[facts.outcome === 'refreshed' ? 'info' : 'warn'](facts, 'refresh ended');
    },
    connectionMade(facts) {
      logger.info(told(facts), 'connection made');
    },
    connectionRemoved({ audited: _audited, ...facts }) {
      logger.info(told(facts), 'connection removed');
    },
    connectionRecovered(facts) {
      logger.info(told(facts), 'connection recovered');
    },
    connectionBroken(facts) {
      metrics.connectionsBroken.inc({ cause: facts.cause });
      logger.warn(facts, 'connection broken');
    },
    revocationEnded(facts) {
      logger[facts.outcome === 'confirmed' ? 'info' : 'error'](facts, 'revocation ended');
    },
    binLookedUp(facts) {
      metrics.binLookups.inc({ source: facts.source }, facts.count);
    },
    binServiceFailed(facts) {
      metrics.binServiceFailures.inc({ reason: facts.reason });
      logger.warn(facts, 'BIN lookup service failed');
    },
    binDatasetLoaded(facts) {
      logger.info(facts, 'BIN data set loaded');
    },
    binDatasetFailed({ cause }) {
      logger.error({ err: cause }, 'BIN data set cannot be read');
    },
    binCacheFailed({ cause }) {
      logger.warn({ err: cause }, 'BIN cache failed');
    },
    ownKeysReplaced({ cause }) {
      logger.warn({ err: cause }, 'own signing keys replaced');
    },
    audited(facts) {
      trail.info(facts, 'audit');
    },
    auditLost(facts) {
      metrics.auditLost.inc(facts.entries);
      logger.error(facts, 'audit entries lost');
    },
    requestFailed({ cause, ...facts }) {
      metrics.problems.inc({ code: facts.code });
      const level = facts.status >= 500 ? 'error' : 'info';
      logger[level]({ ...facts, ...(cause === undefined ? {} : { err: cause }) }, 'request failed');
    },
  };
}

/** Of where a request came from, the log says its id alone: the address is for the audit trail. */
function told<T extends { origin?: Origin | undefined }>({ origin, ...facts }: T) {
  return origin?.requestId === undefined ? facts : { ...facts, requestId: origin.requestId };
}
