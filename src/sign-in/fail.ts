/** Owns how a failure of a sign-in is told: its named cause, what the log hears, and where the person goes from there. */
import type { AppStore } from '../connected-apps/app-store.ts';
import { ProviderError } from '../connected-apps/provider-error.ts';
import { SignInError, type SignInFacts, type SignInFailure } from './failure.ts';
import type { Transaction } from './transaction.ts';

export type Fail = (failure: SignInFailure, about?: FailureAbout) => SignInError;

interface FailureAbout {
  appId?: string | undefined;
  purpose?: Transaction['purpose'];
  cause?: unknown;
  facts?: SignInFacts;
}

export function createFail({ apps, publicHref }: { apps: Pick<AppStore, 'find'>; publicHref: string }): Fail {
  const tryAgain = (appId: string, purpose: Transaction['purpose'] = 'sign_in') =>
    purpose === 'connect' ? `${publicHref}/connections/${appId}` : `${publicHref}/sign-in?app=${appId}`;

  return (failure, about = {}) => {
    const { appId, purpose, cause, facts } = about;
    const known = appId !== undefined && apps.find(appId);
    const step = known
      ? { label: 'Try again', url: tryAgain(known.id, purpose) + (failure === 'step_up_refused' ? '&step_up=1' : '') }
      : { label: 'Go to the start page', url: `${publicHref}/` };
    const retryAfterSeconds = cause instanceof ProviderError ? cause.facts.retryAfterSeconds : undefined;
    const logDetail = cause instanceof ProviderError ? `${failure}: ${describe(cause)}` : failure;
    return new SignInError(failure, { cause, retryAfterSeconds, logDetail, step, facts });
  };
}

/** The named cause of what the provider client rejects with. */
export function providerFailure(cause: unknown): SignInFailure {
  if (!(cause instanceof ProviderError)) return 'token_answer_refused';
  if (cause.failure === 'unavailable') return 'provider_unavailable';
  if (cause.failure === 'misconfigured') return 'misconfigured';
  if (cause.reason === 'authorization_refused') {
    return ['access_denied', 'consent_required'].includes(cause.facts.oauthError ?? '')
      ? 'access_denied'
      : 'provider_refused';
  }
  if (cause.reason === 'authorization_response_invalid') return 'answer_refused';
  return cause.failure === 'refused' ? 'code_refused' : 'token_answer_refused';
}

function describe({ reason, facts }: ProviderError): string {
  return [reason, facts.status, facts.endpoint].filter((part) => part !== undefined).join(' ');
}
