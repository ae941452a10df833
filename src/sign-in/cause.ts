/** Owns why a sign-in failed, in words for an administrator: the cause, what to do, and which setting to look at. Pure. */

import type { SignInRecord } from './attempt.ts';
import type { SignInFailure } from './failure.ts';

export type CauseName =
  | SignInFailure
  | 'other_browser'
  | 'clock_skew'
  | 'wrong_client_secret'
  | 'wrong_issuer'
  | 'wrong_client_id'
  | 'bad_signature'
  | 'scope_refused'
  | 'nothing_came_back'
  | 'code_not_accepted'
  | 'internal';

export interface NamedCause {
  name: CauseName;
  /** One sentence. */
  words: string;
  advice: string;
  /** Of the connected app's form: where to look first. */
  field?: 'issuer' | 'clientId' | 'clientSecret' | 'callbackUrls' | 'scopes' | 'signIn' | 'par' | 'dpop' | undefined;
}

/** Somebody who signs in may need this long before nothing is likely to come any more. */
const PATIENCE_MILLISECONDS = 120_000;

/** Undefined for one that succeeded, or that may still be under way. */
export function causeOf(record: SignInRecord, now: number): NamedCause | undefined {
  if (record.failure !== undefined) return failedCause(record.failure, record);
  if (record.outcome !== undefined || now - record.startedAt < PATIENCE_MILLISECONDS) return undefined;
  return {
    name: 'nothing_came_back',
    words: 'Started, and nothing came back: the provider probably shows an error page of its own.',
    advice:
      'Most likely the callback URL is not registered at the provider, or not character by character the same. Compare it with the one below. It may also be the client ID, or the person closed the page.',
    field: 'callbackUrls',
  };
}

function failedCause(failure: SignInRecord['failure'], record: SignInRecord): NamedCause {
  const { facts } = record;
  switch (failure) {
    case 'state_expired':
      return {
        name: 'state_expired',
        words: `The state expired: the person came back after ${minutesOf(record)}, and 10 are allowed.`,
        advice: 'Signing in again helps. Where it happens often, look at what takes people so long at the provider.',
      };
    case 'cookie_missing':
      return {
        name: facts.otherBrowser ? 'other_browser' : 'cookie_missing',
        words: facts.otherBrowser
          ? 'Cookie missing: started in one browser and opened in another.'
          : 'Cookie missing: opened in another browser, or blocked as third-party.',
        advice:
          'A link of an e-mail may have opened another browser, or the page stands in a frame of another site. The person should start and finish in one browser, with cookies allowed for this address.',
      };
    case 'misconfigured':
      if (facts.reason !== 'client_refused') return misconfigured(facts);
      return {
        name: 'wrong_client_secret',
        words: `The provider did not accept our client authentication${told(facts.status, facts.oauthError)}.`,
        advice:
          'The client secret is wrong or was replaced at the provider, or the authentication method is another. Enter the secret anew.',
        field: 'clientSecret',
      };
    case 'token_answer_refused':
      return refusedToken(record);
    case 'provider_unavailable':
      return {
        name: 'provider_unavailable',
        words: `The provider is down or cannot be reached${told(facts.status, facts.reason)}.`,
        advice:
          'Nothing is to be done here while it lasts. If others reach it, check the issuer and the way out (proxy, firewall).',
        field: 'issuer',
      };
    case 'code_refused':
      return {
        name: 'code_not_accepted',
        words: `The provider did not take its own code back${told(facts.status, facts.oauthError)}.`,
        advice:
          'Usually the callback URL differs between the two calls at the provider, the code was used twice, or it had expired. Compare the callback URL character by character.',
        field: 'callbackUrls',
      };
    case 'answer_refused':
      return {
        name: 'wrong_issuer',
        words: 'The answer named another issuer than the registered one, or none although it should.',
        advice: 'Compare the issuer with the one in the provider’s discovery document, character by character.',
        field: 'issuer',
      };
    case 'provider_refused':
      return facts.oauthError === 'invalid_scope'
        ? {
            name: 'scope_refused',
            words: 'The provider does not know one of the scopes, or does not allow it to this client.',
            advice: 'Take away the scope that the provider does not offer.',
            field: 'scopes',
          }
        : {
            name: 'provider_refused',
            words: `The provider refused${told(undefined, facts.oauthError)}.`,
            advice: 'Look for this time and client in the provider’s own log; check the registration there.',
            field: 'clientId',
          };
    case 'unusable_app':
      return {
        name: 'unusable_app',
        words: 'The callback URL of this app is not in its own list, so nothing was sent.',
        advice: 'Add the callback URL shown below, and register it at the provider.',
        field: 'callbackUrls',
      };
    case 'not_permitted':
      return {
        name: 'not_permitted',
        words: facts.disabled ? 'This user is disabled.' : 'Who may sign in does not include this account.',
        advice: facts.disabled
          ? 'Enable the user again if they should get in.'
          : 'Compare the claim that decides with what the provider sends for this account.',
        field: facts.disabled ? undefined : 'signIn',
      };
    case 'internal':
    case undefined:
      return {
        name: 'internal',
        words: 'Something went wrong here, such as a storage that did not answer.',
        advice: 'Look for the request in the log.',
      };
    default:
      return PLAIN[failure];
  }
}

/** What the provider's metadata or its pushed authorization requests show of a wrong registration. */
function misconfigured(facts: SignInRecord['facts']): NamedCause {
  if (facts.reason === 'par_endpoint_missing') {
    return {
      name: 'misconfigured',
      words: 'Pushed authorization requests are set to “always”, and the provider has no endpoint for them.',
      advice: 'Set them to “where it is demanded”, or have the provider offer them.',
      field: 'par',
    };
  }
  const pushed = facts.reason === 'push_refused';
  return {
    name: 'misconfigured',
    words: `The registration does not fit the provider${told(facts.status, facts.oauthError ?? facts.reason)}.`,
    advice: pushed
      ? 'The provider refused the request itself: compare callback URL and scopes with the registration there.'
      : 'Compare the issuer and the endpoints with what the provider publishes; the doctor says which of them is wrong.',
    field: pushed ? 'callbackUrls' : 'issuer',
  };
}

function refusedToken({ facts }: SignInRecord): NamedCause {
  if (facts.reason === 'token_not_bound') {
    return {
      name: 'token_answer_refused',
      words: 'DPoP is set to “always”, and the provider gave a bearer token.',
      advice: 'Have the provider bind the tokens of this client, or set DPoP to “where it is demanded”.',
      field: 'dpop',
    };
  }
  switch (facts.check) {
    case 'times':
      return {
        name: 'clock_skew',
        words: `This server’s clock is ${skewOf(facts.secondsAhead)} the provider’s.`,
        advice: 'Set the clocks by NTP. Up to 30 seconds do no harm.',
      };
    case 'issuer':
      return {
        name: 'wrong_issuer',
        words: 'The ID token was issued by another issuer than the registered one.',
        advice: 'Compare the issuer with the one in the provider’s discovery document, character by character.',
        field: 'issuer',
      };
    case 'audience':
      return {
        name: 'wrong_client_id',
        words: 'The ID token is for another client.',
        advice: 'Compare the client ID with the one at the provider.',
        field: 'clientId',
      };
    case 'signature':
      return {
        name: 'bad_signature',
        words: 'The signature of the ID token does not fit the keys of the provider.',
        advice:
          'If the provider has just changed its keys this heals within minutes. Otherwise trust nothing that it sent.',
        field: 'issuer',
      };
    default:
      return PLAIN.token_answer_refused;
  }
}

type PlainFailure = Exclude<
  SignInFailure,
  | 'state_expired'
  | 'cookie_missing'
  | 'misconfigured'
  | 'provider_unavailable'
  | 'code_refused'
  | 'answer_refused'
  | 'provider_refused'
  | 'unusable_app'
  | 'not_permitted'
>;

const PLAIN: Readonly<Record<PlainFailure, NamedCause>> = {
  parameter_doubled: plain(
    'parameter_doubled',
    'The provider’s answer says something twice.',
    'Tell whoever runs the provider.',
  ),
  state_missing: plain(
    'state_missing',
    'The callback was opened without a state.',
    'Somebody opened the address by itself; nothing is to be done.',
  ),
  state_invented: plain(
    'state_invented',
    'The state is not one of ours.',
    'Somebody made the address up, or SESSION_SECRETS were replaced meanwhile.',
  ),
  state_used: plain(
    'state_used',
    'The callback had been used before.',
    'That happens after going back in the browser; nothing is to be done.',
  ),
  other_app: plain(
    'other_app',
    'The answer came to the callback URL of another app.',
    'Each app needs its own callback URL at its provider.',
    'callbackUrls',
  ),
  registration_changed: plain(
    'registration_changed',
    'The app was changed while the person was at the provider.',
    'Signing in again helps.',
  ),
  disabled_app: plain('disabled_app', 'The app is disabled.', 'Enable it again if people should sign in with it.'),
  other_user: plain(
    'other_user',
    'Somebody else was signed in when the person came back.',
    'Connecting once more, as the right user, helps.',
  ),
  step_up_refused: plain(
    'step_up_refused',
    'The ID token lacks the acr that ADMIN_ACR demands, or proves it by a sign-in that is too old.',
    'Compare ADMIN_ACR with what the provider calls it, and look whether this account has a second factor there.',
  ),
  access_denied: plain(
    'access_denied',
    'The person, or their organisation, did not agree.',
    'Where nobody can agree, the provider’s administrator has to allow this app first.',
    'scopes',
  ),
  token_answer_refused: plain(
    'token_answer_refused',
    'The provider’s token answer could not be verified.',
    'Check the app: the doctor tries what can be tried without a person.',
    'issuer',
  ),
};

function plain(name: PlainFailure, words: string, advice: string, field?: NamedCause['field']): NamedCause {
  return { name, words, advice, field };
}

function minutesOf({ startedAt, endedAt = startedAt }: SignInRecord): string {
  const minutes = Math.round((endedAt - startedAt) / 60_000);
  return `${minutes} minute${minutes === 1 ? '' : 's'}`;
}

function skewOf(secondsAhead: number | undefined): string {
  if (secondsAhead === undefined) return 'not the same as';
  return `${Math.abs(secondsAhead)} s ${secondsAhead < 0 ? 'behind' : 'ahead of'}`;
}

function told(status: number | undefined, word: string | undefined): string {
  const parts = [status === undefined ? undefined : `status ${status}`, word].filter((part) => part !== undefined);
  return parts.length === 0 ? '' : ` (${parts.join(', ')})`;
}
