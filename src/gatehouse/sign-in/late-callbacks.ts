/** Ends callbacks that complete nothing: one that comes again, and one whose request is no longer pending (R10). */
import type { SessionUser } from '../../shared/sessions/session.ts';
import type { SignInRecord } from '../sign-in-record/attempt.ts';
import { type AttemptLog, isOtherBrowser } from '../sign-in-record/attempt-log.ts';
import { type GoneFailure, UNPROVEN_FAILURES } from '../sign-in-record/failures.ts';
import type { SignInError } from '../sign-in-record/sign-in-error.ts';
import { type Fail, failureContextOf } from './fail.ts';
import { type KeptReturn, usualReturn } from './kept-returns.ts';
import type { CallbackRequest, FlowParts } from './parts.ts';
import { fingerprintOf, PENDING_REQUEST_SECONDS, type PendingRequest } from './pending-requests.ts';
import type { StartInput } from './start.ts';

/** How a callback ends. `unrecorded`: an error page that changes nothing in the record of the attempt. */
export type CallbackEnd = { url: string } | { startOver: StartInput } | { unrecorded: SignInError };

/** Returns the record of an attempt that has ended. An unproven request ends none: its browser can still come back. */
const endedRecord = (record: SignInRecord | undefined): SignInRecord | undefined =>
  record?.endedAt === undefined || UNPROVEN_FAILURES.some((failure) => failure === record.failure) ? undefined : record;

export function createLateCallbacks(parts: FlowParts, fail: Fail) {
  const { apps, recorder, keptReturns, clock, home, recordUrl } = parts;

  const startPage = (failure: GoneFailure) => ({ url: `${home}?ended=${failure}` });

  /** Returns the page on which the attempt ended, if it ended on one that explains a failure. */
  const endPage = (
    { failure, facts, references }: SignInRecord,
    user: SessionUser | undefined,
    context: Parameters<Fail>[1],
  ): CallbackEnd | undefined => {
    if (failure === 'state_expired' || failure === 'no_longer_pending') return startPage(failure);
    // An internal error may not happen again.
    if (failure === undefined || failure === 'internal') return undefined;
    const signOutFirst = user !== undefined && (failure === 'other_user' || failure === 'other_user_signed_in');
    return { unrecorded: fail(failure, { ...context, facts, signOutFirst, reference: references.at(-1) }) };
  };

  /** Shows a failure of a request that does not prove to come from the browser of the attempt. @throws SignInError */
  const unproven = (
    failure: 'session_ended' | 'cookie_missing',
    record: SignInRecord | undefined,
    context: Parameters<Fail>[1],
  ): CallbackEnd => {
    const reference = record?.failure === failure ? record.references.at(-1) : undefined;
    const error = fail(failure, { ...context, reference });
    if (record?.endedAt !== undefined) return { unrecorded: error };
    throw error;
  };

  /** Returns where an attempt was to lead, if its app still allows that. */
  const returnOf = ({ app, purpose }: SignInRecord, { returnTo }: Partial<KeptReturn> = {}): string => {
    const isAllowed = returnTo?.startsWith('/') || apps.find(app)?.returnUrls?.some((url) => url === returnTo);
    return returnTo !== undefined && isAllowed ? returnTo : usualReturn(home, purpose, app);
  };

  const consentPath = ({ appId, returnTo }: PendingRequest) =>
    `${home}connections/${appId}?${new URLSearchParams({ return_to: returnTo })}`;

  /** Starts the request again as it was. At the provider, the user is usually still signed in and notices nothing. */
  const startOver = (
    pendingRequest: PendingRequest,
    user: SessionUser | undefined,
    { isUnderWay }: { isUnderWay: boolean },
  ): CallbackEnd => {
    const { appId, appFingerprint, scopes, returnTo, hints = {}, startedOverFrom, attempt } = pendingRequest;
    const registeredApp = apps.find(appId);
    const app = registeredApp && fingerprintOf(registeredApp) === appFingerprint ? registeredApp : undefined;
    // A response that was lost twice may be lost each time. A call that is under way has lost none yet.
    const mayStartOver = startedOverFrom === undefined || isUnderWay;
    const again = { scopes, returnTo, hints, startedOverFrom: attempt };
    if (pendingRequest.purpose === 'sign_in') {
      const { stepUp = false } = pendingRequest;
      if (!app || !mayStartOver) return startPage('no_longer_pending');
      return { startOver: { purpose: 'sign_in', user, stepUp, app, ...again } };
    }
    const { userId, link, linkPath, trial } = pendingRequest;
    // On the page of the connection or of the link, the user consents again.
    if (!app || !mayStartOver || user?.id !== userId) return { url: linkPath ?? consentPath(pendingRequest) };
    const ofLink = link === undefined || linkPath === undefined ? {} : { link, linkPath };
    return { startOver: { purpose: 'connect', user, ...ofLink, ...(trial && { trial }), app, ...again } };
  };

  return {
    /**
     * Ends a callback that came before, such as one that is reloaded. Nothing waits for a call that is still under way.
     */
    async repeated(pendingRequest: PendingRequest, { user }: CallbackRequest): Promise<CallbackEnd> {
      const { purpose, returnTo, attempt } = pendingRequest;
      const record = await recorder.find(attempt);
      const isTrial = purpose === 'connect' && pendingRequest.trial;
      const ended = endedRecord(record);
      if (isTrial && ended) return { url: returnTo };
      const page = ended && endPage(ended, user, failureContextOf(pendingRequest));
      if (page) return page;
      const isDone = purpose === 'sign_in' ? user !== undefined : record?.outcome === 'connected';
      if (isDone) return { url: returnTo };
      return startOver(pendingRequest, user, { isUnderWay: record !== undefined && !ended });
    },

    /** Ends a callback whose browser secret is from before the last sign-in, without a session. @throws SignInError */
    async afterSession(pendingRequest: PendingRequest): Promise<CallbackEnd> {
      const record = await recorder.find(pendingRequest.attempt);
      return unproven('session_ended', record, failureContextOf(pendingRequest));
    },

    /** Ends a callback whose request is too old, was dropped, or belongs to another browser. @throws SignInError */
    async withoutRequest(
      { appId, user, browserSecrets, info }: CallbackRequest,
      { state, startedAt }: { state: string; startedAt: number },
      attemptLog: AttemptLog,
    ): Promise<CallbackEnd> {
      const record = await recorder.findByState(state);
      // Without a session, a secret from before the last sign-in proves nothing (R103).
      const validSecrets = browserSecrets.filter(({ isEarlier }) => !isEarlier || user !== undefined);
      const secrets = validSecrets.map(({ secret }) => secret);
      const otherBrowser = record !== undefined && isOtherBrowser(record, { ...info, browserSecrets: secrets });
      const isSameBrowser = secrets.length > 0 && !otherBrowser;
      const ended = endedRecord(record);
      if (isSameBrowser && ended) {
        const { app, purpose } = ended;
        if (ended.trial) return { url: recordUrl(ended.id) };
        const keptReturn = await keptReturns.find(ended.id);
        const context = { appId: app, ...(purpose !== 'unknown' && { purpose }), ...keptReturn };
        const page = endPage(ended, user, context);
        return page ?? { url: user ? returnOf(ended, keptReturn) : home };
      }
      const isExpired = clock() - startedAt > PENDING_REQUEST_SECONDS * 1000;
      if (!isExpired && !isSameBrowser) {
        if (user === undefined) {
          const isEarlierSecret = record !== undefined && browserSecrets.length > 0 && !isOtherBrowser(record, info);
          return unproven(isEarlierSecret ? 'session_ended' : 'cookie_missing', record, {
            appId,
            facts: { otherBrowser },
          });
        }
        if (record?.endedAt === undefined)
          await attemptLog.failed(fail('cookie_missing', { appId, facts: { otherBrowser } }));
        return startPage('cookie_missing');
      }
      if (isSameBrowser && record) attemptLog.learn({ id: record.id });
      const failure = isExpired ? 'state_expired' : 'no_longer_pending';
      await attemptLog.failed(fail(failure, { appId }));
      return startPage(failure);
    },
  };
}
