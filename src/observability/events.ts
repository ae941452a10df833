/** Owns what is told of each business event, to the log and to the metrics: one function per event, so that no caller formats a line. */
import type { Logger } from 'pino';
import type { Metrics } from './metrics.ts';

export type SignInOutcome = 'signed_in' | 'connected' | 'refused' | 'failed';

/** Ids are ours (user, app, request); nothing here takes a token, a secret, a URL with a query or a digit string. */
export interface Events {
  signInStarted(facts: { app: string; purpose: 'sign_in' | 'connect'; userId?: string | undefined }): void;
  signInEnded(facts: {
    app: string;
    outcome: SignInOutcome;
    reason?: string;
    userId?: string | undefined;
    reference?: string;
  }): void;
  signedOut(facts: { userId: string; everywhere: boolean }): void;
  /** A provider asked for sessions to be ended; `sessions`: how many were. */
  providerSignedOut(facts: { app: string; outcome: 'ended' | 'refused'; reason?: string; sessions?: number }): void;
  refreshEnded(facts: { userId: string; app: string; outcome: string; reason?: string | undefined }): void;
  connectionMade(facts: { userId: string; app: string; scopes: readonly string[] }): void;
  connectionRemoved(facts: { userId: string; app: string; revocation: string }): void;
  connectionBroken(facts: { userId: string; app: string; cause: string }): void;
  binLookedUp(facts: { source: string }): void;
  binServiceFailed(facts: { reason: string }): void;
  /** What the service answered was handed on, but could not be kept. */
  binCacheFailed(facts: { cause: unknown }): void;
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
  return {
    signInStarted(facts) {
      logger.info(facts, 'sign-in started');
    },
    signInEnded(facts) {
      metrics.signIns.inc({ outcome: facts.outcome });
      logger[facts.outcome === 'failed' ? 'warn' : 'info'](facts, 'sign-in ended');
    },
    signedOut(facts) {
      logger.info(facts, 'signed out');
    },
    providerSignedOut(facts) {
      logger[facts.outcome === 'ended' ? 'info' : 'warn'](facts, 'sign-out by the provider');
    },
    refreshEnded(facts) {
      metrics.refreshes.inc({ outcome: facts.outcome });
      logger[facts.outcome === 'refreshed' ? 'info' : 'warn'](facts, 'refresh ended');
    },
    connectionMade(facts) {
      logger.info(facts, 'connection made');
    },
    connectionRemoved(facts) {
      logger.info(facts, 'connection removed');
    },
    connectionBroken(facts) {
      logger.warn(facts, 'connection broken');
    },
    binLookedUp(facts) {
      metrics.binLookups.inc({ source: facts.source });
    },
    binServiceFailed(facts) {
      logger.warn(facts, 'BIN lookup service failed');
    },
    binCacheFailed({ cause }) {
      logger.warn({ err: cause }, 'BIN cache failed');
    },
    requestFailed({ cause, ...facts }) {
      const level = facts.status >= 500 ? 'error' : 'info';
      logger[level]({ ...facts, ...(cause === undefined ? {} : { err: cause }) }, 'request failed');
    },
  };
}
