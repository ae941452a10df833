/** Each failure of a sign-in: who can help, words for the user and the administrator, and the failed step. */

import type { Helper, PageWords, ProblemCode } from '../../shared/errors.ts';
import { isCodeRefusal } from '../../shared/provider/oauth-error.ts';
import type { UnmetPart } from '../../shared/provider/sign-in-demand.ts';
import { UNREQUESTED_DPOP } from '../../shared/provider/token-members.ts';
import { type ClaimObservation, OBSERVATIONS, observationAdvice, observationWords } from './claim-observation.ts';
import type { StepName } from './steps.ts';

/** Details of one failure, for its record. */
export interface SignInFacts {
  status?: number | undefined;
  /** `error` of the provider's response (RFC 6749 sections 4.1.2.1 and 5.2). */
  oauthError?: string | undefined;
  /** `reason` of the ProviderError. */
  reason?: string | undefined;
  /** The member for which the token response was refused, and the host that it names. */
  member?: string | undefined;
  /** A description of its value that may be shown. */
  value?: string | undefined;
  host?: string | undefined;
  /** The check that the ID token failed. */
  check?: string | undefined;
  /** The claim of the ID token that is missing, or has a form that is not allowed. */
  missing?: string | undefined;
  malformed?: string | undefined;
  /** Seconds by which our clock is ahead of the provider's. */
  secondsAhead?: number | undefined;
  otherBrowser?: boolean | undefined;
  disabled?: boolean | undefined;
  /** The part of the platform's demand that the ID token does not meet. */
  unmet?: UnmetPart | undefined;
  /** Of the claim of the app's rule, if it refused the user. */
  observation?: ClaimObservation | undefined;
  redirectUri?: string | undefined;
  /** Detail of the failed step, in place of one composed from the other facts. */
  seen?: string | undefined;
  /** Why a call to the provider failed, and what to do about it. */
  call?: { words: string; advice: string | undefined } | undefined;
}

/** @param minutes from the start to the end of the attempt, in words */
export type Text = string | ((facts: SignInFacts, minutes: string) => string);

/** The field of the connected app's form to look at first. */
export type AppField =
  | 'issuer'
  | 'clientId'
  | 'clientSecret'
  | 'callbackUrls'
  | 'scopes'
  | 'signIn'
  | 'par'
  | 'dpop'
  | 'account'
  | 'tokenEndpoint'
  | 'tokenParameters'
  | 'tokenPath'
  | 'apiBaseUrlFrom';

interface Cause {
  /** Code of the cause, in place of the failure's name. */
  causeCode?: string;
  /** One sentence. */
  words: Text;
  advice: Text;
  field?: AppField | undefined;
  failedAt: StepName;
}

export interface Failure extends Cause {
  code: ProblemCode;
  helper: Helper;
  /** For the user, one or two sentences. */
  detail: string;
  /** In place of `detail`, with what was seen. */
  detailOf?: (facts: SignInFacts) => string | undefined;
  /** For the user, in place of the words that belong to the code. */
  page?: PageWords;
  /** True if the user, or the app's rule for users, refused: nothing is broken. */
  isRefusal?: true;
  /** More specific causes: the first variant that matches the facts replaces the members that it defines. */
  variants?: readonly (Partial<Cause> & { when: (facts: SignInFacts) => boolean })[];
}

const NOT_SIGNED_IN = 'The sign-in at the provider failed';
const TELL_ADMINISTRATOR =
  'Give an administrator the reference below: it leads them to the cause. Trying again will not help.';
const TRY_AGAIN = 'Try again. If it fails again, give an administrator the reference below.';
const COMPARE_ISSUER = 'Compare the issuer with the one in the provider’s discovery document, character by character.';
const CALL_WORDS: Text = ({ call }) => `The call to the provider failed: ${call?.words}.`;

/** The claim that is missing or malformed is named, in place of what its value would mean. */
const FAULTY_CLAIMS = (['form', 'times', 'issuer', 'audience', 'nonce'] as const).map((faultyCheck) => ({
  when: ({ check, missing, malformed }: SignInFacts) =>
    check === faultyCheck && (missing !== undefined || malformed !== undefined),
  causeCode: 'claim_faulty',
  failedAt: `id_token_${faultyCheck}` as const,
  words: ({ missing, malformed }: SignInFacts) =>
    missing === undefined
      ? `The ID token has “${malformed}” in a form that is not allowed.`
      : `The ID token has no “${missing}”.`,
  advice: ({ missing }: SignInFacts) =>
    missing === 'nonce'
      ? 'The request had a nonce, and the provider must return it in the ID token (OpenID Connect Core, section 3.1.3.7). Look for a page of the provider, such as that for consent, that drops it.'
      : 'The provider must send it as OpenID Connect Core, section 2, says: look into its configuration, or report it.',
  field: undefined,
}));

const FAILURES = {
  parameter_doubled: {
    code: 'invalid_request',
    helper: 'provider',
    failedAt: 'came_back',
    detail: 'The identity provider sent you back with a parameter given twice, so its response was not used.',
    words: 'The provider’s response gives a parameter twice.',
    advice: 'Report it to the provider.',
  },
  state_missing: {
    code: 'invalid_request',
    helper: 'you',
    failedAt: 'state',
    detail: 'This address is one step of a sign-in and does not work on its own.',
    words: 'The callback was opened without a state.',
    advice: 'The address was opened directly. There is nothing to do.',
  },
  error_without_state: {
    code: 'invalid_request',
    helper: 'provider',
    failedAt: 'state',
    detail: 'The identity provider sent you back with an error, but did not say to which sign-in it belongs.',
    detailOf: ({ oauthError }) =>
      oauthError &&
      `The identity provider sent you back with the error “${oauthError}”, but did not say to which sign-in it belongs.`,
    page: { title: NOT_SIGNED_IN, advice: TELL_ADMINISTRATOR },
    words: ({ oauthError }) =>
      `The browser came back with an error${inBrackets(oauthError)}, but without a state. Probably the provider refused the request; nothing proves it.`,
    advice:
      'Compare the client ID, the callback URL and the scopes with the registration at the provider, and look into its log. It should send the state back with an error (RFC 6749, section 4.1.2.1).',
    field: 'clientId',
    variants: [
      {
        when: ({ oauthError }) => oauthError === 'invalid_scope',
        advice: 'Remove the scope that the provider does not offer to this client.',
        field: 'scopes',
      },
    ],
  },
  form_post: {
    code: 'invalid_request',
    helper: 'provider',
    failedAt: 'state',
    detail: 'The identity provider sent its response in a form that is not accepted here, so nothing was done.',
    page: { title: NOT_SIGNED_IN, advice: TELL_ADMINISTRATOR },
    words: ({ oauthError }) =>
      `The provider sent its response${inBrackets(oauthError)} by POST (form_post), and only a redirect with a query is accepted.`,
    advice: 'Set the response mode of this client at the provider to “query”. No request asks for form_post.',
    field: 'clientId',
  },
  state_invented: {
    code: 'invalid_request',
    helper: 'you',
    failedAt: 'state',
    detail: 'This sign-in was not started here.',
    words: 'The state was not issued here.',
    advice: 'The address was made up, or SESSION_SECRETS were replaced in the meantime.',
  },
  state_expired: {
    code: 'invalid_request',
    helper: 'you',
    failedAt: 'state',
    detail:
      'More than 10 minutes passed before you came back from the provider, so nothing was done. Please start again.',
    words: (_facts, minutes) => `The state expired: the user came back after ${minutes}, and 10 are allowed.`,
    advice: 'The user can sign in again. If it happens often, find out what takes users so long at the provider.',
  },
  no_longer_pending: {
    code: 'invalid_request',
    helper: 'you',
    failedAt: 'state',
    detail: 'You started more than 10 sign-ins in this browser, so this one, the oldest, ended. Please start again.',
    words: 'The pending request was dropped: the browser had started more than 10 others, or the storage lost it.',
    advice: 'The user can sign in again. If it happens often, find out what opens so many sign-ins in one browser.',
  },
  cookie_missing: {
    code: 'invalid_request',
    helper: 'you',
    failedAt: 'cookie',
    detail: 'This sign-in was started in another browser or before you signed out, or this browser blocks our cookie.',
    words: 'Cookie missing: opened in another browser, or blocked as third-party.',
    advice:
      'The user may have signed out in the meantime, a link in an e-mail may have opened another browser, or the page is in a frame of another site. The user should start and finish in one browser that allows cookies for this address.',
    variants: [
      {
        when: ({ otherBrowser }) => otherBrowser === true,
        causeCode: 'other_browser',
        words: 'Cookie missing: started in one browser and opened in another.',
      },
    ],
  },
  session_ended: {
    code: 'invalid_request',
    helper: 'you',
    failedAt: 'cookie',
    detail: 'The session of this browser has ended since you went to the provider, so nothing was done.',
    page: { title: 'Your session has ended', advice: 'Sign in again.' },
    words: 'The session had ended when the browser came back, with a cookie from before its last sign-in.',
    advice: 'The user can sign in again.',
  },
  other_user: {
    code: 'invalid_request',
    helper: 'you',
    failedAt: 'cookie',
    detail: 'You are no longer signed in as the user who started to connect this app.',
    page: { title: 'Nothing was connected', advice: 'Sign in as that user, then connect the app again.' },
    words: 'Another user was signed in when the browser came back.',
    advice: 'Connect again as the right user.',
  },
  other_app: {
    code: 'invalid_request',
    helper: 'provider',
    failedAt: 'redirect_uri',
    detail: 'The response was for a different app than the one you chose, so it was not used.',
    words: 'The response came to the callback URL of another app.',
    advice: 'Each app needs its own callback URL at its provider.',
    field: 'callbackUrls',
  },
  registration_changed: {
    code: 'invalid_request',
    helper: 'you',
    failedAt: 'redirect_uri',
    detail: 'The settings of this app changed while you were at the identity provider.',
    words: 'The app was changed while the user was at the provider.',
    advice: 'The user can sign in again.',
  },
  user_gone: {
    code: 'sign_in_required',
    helper: 'you',
    failedAt: 'connection',
    detail:
      'You signed out everywhere, or your data was deleted, while you were at the identity provider, so nothing was stored.',
    words: 'The user was deleted or signed out everywhere in the meantime.',
    advice: 'There is nothing to do.',
  },
  disabled_app: {
    code: 'not_allowed',
    helper: 'administrator',
    failedAt: 'started',
    detail: 'An administrator has disabled this app. You cannot sign in or connect with it at the moment.',
    words: 'The app is disabled.',
    advice: 'Enable it again if users should sign in with it.',
  },
  unusable_app: {
    code: 'app_misconfigured',
    helper: 'administrator',
    failedAt: 'redirect_uri',
    detail:
      'The callback URL of this app is not in its registration, so you were not sent to the provider. An administrator has to add it.',
    page: { title: NOT_SIGNED_IN, advice: TELL_ADMINISTRATOR },
    words: 'The callback URL of this app is not in its list, so the browser was not sent to the provider.',
    advice: 'Add the callback URL shown below exactly as it is there, and register it at the provider.',
    field: 'callbackUrls',
  },
  authorization_response_refused: {
    code: 'invalid_request',
    helper: 'provider',
    failedAt: 'authorization_response',
    detail: 'The identity provider sent you back with a response that could not be trusted, so it was not used.',
    page: { title: NOT_SIGNED_IN, advice: TRY_AGAIN },
    causeCode: 'wrong_issuer',
    words:
      'The response names a different issuer than the registered one, or omits it although the provider says it sends it.',
    advice: COMPARE_ISSUER,
    field: 'issuer',
  },
  access_denied: {
    code: 'not_allowed',
    helper: 'you',
    failedAt: 'granted',
    isRefusal: true,
    detail: 'You or your organization did not consent.',
    page: { title: 'Consent was not given', advice: 'Nothing was changed. Try again if you want to consent.' },
    words: 'The user or their organization did not consent.',
    advice:
      'If the user chose so, there is nothing to do. If no user can consent, the provider’s administrator has to allow this app first.',
  },
  provider_refused: {
    code: 'provider_error',
    helper: 'provider',
    failedAt: 'granted',
    detail: 'The identity provider refused this sign-in.',
    page: { title: NOT_SIGNED_IN, advice: TELL_ADMINISTRATOR },
    words: ({ oauthError }) => `The provider refused${inBrackets(oauthError)}.`,
    advice: 'Look for this time and client in the provider’s log, and check the registration there.',
    field: 'clientId',
    variants: [
      {
        when: ({ oauthError }) => oauthError === 'invalid_scope',
        causeCode: 'scope_refused',
        words: 'The provider does not know one of the scopes, or does not allow it to this client.',
        advice: 'Remove the scope that the provider does not offer.',
        field: 'scopes',
      },
    ],
  },
  provider_unavailable: {
    code: 'provider_unavailable',
    helper: 'provider',
    failedAt: 'token_endpoint',
    detail: 'The identity provider does not respond at the moment.',
    words: ({ status, reason }) => `The provider is down or cannot be reached${inBrackets(status ?? reason)}.`,
    advice: ({ call }) =>
      call?.advice ??
      'Wait until the provider is back. If others reach it, check the issuer, and the proxy or firewall in between.',
    field: 'issuer',
    variants: [{ when: ({ call }) => call !== undefined, words: CALL_WORDS }],
  },
  provider_limited: {
    code: 'provider_unavailable',
    helper: 'provider',
    failedAt: 'token_endpoint',
    detail: 'The identity provider limits how often it may be called, and accepts no more calls at the moment.',
    page: { title: 'The sign-in provider is busy' },
    words: ({ status, reason }) => `The provider limits the rate of our calls${inBrackets(status ?? reason)}.`,
    advice: 'Wait as long as it says. If it happens often, ask the provider for a higher limit for this client.',
  },
  provider_unreadable: {
    code: 'provider_error',
    helper: 'provider',
    failedAt: 'token_endpoint',
    detail: 'The response of the identity provider could not be read.',
    page: { title: NOT_SIGNED_IN, advice: TRY_AGAIN },
    words: CALL_WORDS,
    advice: ({ call }) => call?.advice ?? 'Compare the response with the provider’s documentation.',
    field: 'issuer',
  },
  code_refused: {
    code: 'provider_error',
    helper: 'provider',
    failedAt: 'token_endpoint',
    detail: 'The identity provider did not accept the code that it had just issued.',
    page: { title: NOT_SIGNED_IN, advice: TRY_AGAIN },
    causeCode: 'code_not_accepted',
    words: ({ status, oauthError }) =>
      `The provider did not accept the code that it had issued${inBrackets(status, oauthError)}.`,
    advice:
      'Usually the provider sees another callback URL in the second call, the code was used twice, or it had expired. Compare the callback URL character by character.',
    field: 'callbackUrls',
    variants: [
      {
        when: ({ status }) => status === 404 || status === 405,
        causeCode: 'wrong_token_endpoint',
        words: ({ status }) => `The token endpoint does not accept our request${inBrackets(status)}.`,
        advice:
          'Compare its address with the provider’s documentation. Token requests are sent by POST (RFC 6749 section 3.2): a provider that accepts them only by GET cannot be used.',
        field: 'tokenEndpoint',
      },
      {
        when: ({ oauthError }) => oauthError !== undefined && !isCodeRefusal(oauthError),
        causeCode: 'token_request_refused',
        words: ({ status, oauthError }) => `The provider refused the token request${inBrackets(status, oauthError)}.`,
        advice:
          'The code itself may be valid. Compare the request with the provider’s documentation: it may need further token parameters, or refuse PKCE (code_verifier), which is always sent.',
        field: 'tokenParameters',
      },
    ],
  },
  misconfigured: {
    code: 'provider_error',
    helper: 'administrator',
    failedAt: 'token_endpoint',
    detail:
      'This app is not set up correctly, so the identity provider rejected our request. An administrator has to correct that.',
    page: { title: NOT_SIGNED_IN, advice: TELL_ADMINISTRATOR },
    words: ({ status, oauthError, reason }) =>
      `The registration does not match the provider${inBrackets(status, oauthError ?? reason)}.`,
    advice:
      'Compare the issuer and the endpoints with those that the provider publishes. The doctor says which of them is wrong.',
    field: 'issuer',
    variants: [
      {
        when: ({ reason }) => reason === 'client_refused',
        causeCode: 'wrong_client_secret',
        words: ({ status, oauthError }) =>
          `The provider did not accept our client authentication${inBrackets(status, oauthError)}.`,
        advice:
          'The client secret is wrong or was replaced at the provider, or the provider expects another authentication method. Enter the secret again; the doctor tries the other methods.',
        field: 'clientSecret',
      },
      {
        when: ({ reason }) => reason === 'flow_refused',
        words: ({ status, oauthError }) =>
          `The provider does not allow this client the code flow${inBrackets(status, oauthError)}.`,
        advice: 'Allow the authorization code flow for this client at the provider.',
        field: 'clientId',
      },
      {
        when: ({ reason }) => reason === 'par_endpoint_missing',
        words: 'Pushed authorization requests are set to “always”, but the provider has no endpoint for them.',
        advice: 'Set them to “if the provider requires it”, or ask the provider to offer them.',
        field: 'par',
      },
      {
        when: ({ call }) => call !== undefined,
        words: CALL_WORDS,
        advice: ({ call }) => call?.advice ?? 'The doctor says which endpoint it is.',
      },
      {
        when: ({ reason }) => reason === 'push_refused',
        advice: 'The provider refused the request itself: compare callback URL and scopes with the registration there.',
        field: 'callbackUrls',
      },
    ],
  },
  token_response_refused: {
    code: 'provider_error',
    helper: 'provider',
    failedAt: 'id_token_form',
    detail: 'The tokens of the identity provider could not be verified.',
    page: { title: NOT_SIGNED_IN, advice: TRY_AGAIN },
    words: 'The provider’s token response could not be verified.',
    advice: 'Check the app: the doctor tries everything that needs no user.',
    field: 'issuer',
    variants: [
      {
        when: ({ reason }) => reason === 'api_base_url_refused',
        causeCode: 'api_host_refused',
        failedAt: 'token_endpoint',
        words: ({ member, host = 'no usable URL' }) =>
          `The token response names ${host} for the API in “${member}”, but the app allows no calls there.`,
        advice: 'If the provider has its API there, add the host to those that this member may name.',
        field: 'apiBaseUrlFrom',
      },
      {
        when: ({ value }) => value === UNREQUESTED_DPOP,
        causeCode: 'token_bound_unasked',
        failedAt: 'token_endpoint',
        words: 'The provider binds the tokens to a key (DPoP), but no key was sent.',
        advice: 'Set DPoP to “always”.',
        field: 'dpop',
      },
      {
        when: ({ member, value }) => member === 'token_type' && value !== undefined,
        causeCode: 'token_type_unknown',
        failedAt: 'token_endpoint',
        words: ({ value }) => `The token_type of the provider’s token response is ${value}, and not “Bearer”.`,
        advice:
          'Compare the token_type in the provider’s documentation. Only bearer tokens and those of DPoP can be used (RFC 6750, RFC 9449), and the type is compared without regard to case, but with every space. Ask the provider to send it as registered.',
        field: undefined,
      },
      {
        when: ({ member }) => member !== undefined,
        causeCode: 'token_response_malformed',
        failedAt: 'token_endpoint',
        words: ({ member }) =>
          `The provider’s token response lacks ${member}, or has it in a form that cannot be used.`,
        advice:
          'Compare the token response in the provider’s documentation. If the tokens are in a nested object, set the path of that object.',
        field: 'tokenPath',
      },
      {
        when: ({ reason, status = 0 }) => reason === 'token_response_invalid' && status >= 300,
        causeCode: 'wrong_token_endpoint',
        failedAt: 'token_endpoint',
        words: ({ status }) => `The token endpoint sent no token response${inBrackets(status)}.`,
        advice: 'Compare its address with the provider’s documentation. Redirects are not followed.',
        field: 'tokenEndpoint',
      },
      {
        when: ({ reason }) => reason === 'token_not_bound',
        failedAt: 'token_endpoint',
        words: 'DPoP is set to “always”, but the provider issued a bearer token.',
        advice: 'Ask the provider to bind the tokens of this client, or set DPoP to “if the provider requires it”.',
        field: 'dpop',
      },
      {
        when: ({ missing }) => missing === 'id_token',
        causeCode: 'id_token_missing',
        words: 'The provider’s token response has no ID token.',
        advice: 'Allow OpenID Connect (the scope “openid”) for this client at the provider.',
        field: 'scopes',
      },
      ...FAULTY_CLAIMS,
      {
        when: ({ check }) => check === 'times',
        causeCode: 'clock_skew',
        failedAt: 'id_token_times',
        words: ({ secondsAhead }) => `This server’s clock is ${skewOf(secondsAhead)} the provider’s.`,
        advice: 'Set the clocks by NTP. A difference of up to 30 seconds is accepted.',
        field: undefined,
      },
      {
        when: ({ check }) => check === 'issuer',
        causeCode: 'wrong_issuer',
        failedAt: 'id_token_issuer',
        words: 'The ID token was issued by a different issuer than the registered one.',
        advice: COMPARE_ISSUER,
      },
      {
        when: ({ check }) => check === 'audience',
        causeCode: 'wrong_client_id',
        failedAt: 'id_token_audience',
        words: 'The ID token is for another client.',
        advice: 'Compare the client ID with the one at the provider.',
        field: 'clientId',
      },
      {
        when: ({ check }) => check === 'nonce',
        failedAt: 'id_token_nonce',
        words: 'The nonce of the ID token is not that of the request.',
        advice:
          'A token of another sign-in is refused. If it happens at each sign-in, the provider changes the nonce: report it.',
      },
      {
        when: ({ check }) => check === 'signature',
        causeCode: 'bad_signature',
        failedAt: 'id_token_signature',
        words: 'The signature of the ID token does not match the provider’s keys.',
        advice:
          'If the provider has just changed its keys, sign-ins work again within minutes. Otherwise do not trust what it sent.',
      },
    ],
  },
  account_unreadable: {
    code: 'provider_error',
    helper: 'administrator',
    failedAt: 'claims',
    detail: 'We could not find out which account you chose at the provider, so nothing was connected.',
    page: { title: 'Nothing was connected', advice: TRY_AGAIN },
    words: ({ status }) => `The response has no usable id of the account${inBrackets(status)}.`,
    advice: 'Compare the URL and the member in the app’s setting “account” with the provider’s documentation.',
    field: 'account',
    variants: [
      {
        when: ({ reason }) => reason === 'account_url_missing',
        words: 'The provider has no userinfo endpoint, so the account’s id cannot be read.',
        advice: 'Set the URL of the account to one of its API.',
      },
    ],
  },
  other_user_signed_in: {
    code: 'invalid_request',
    helper: 'you',
    failedAt: 'claims',
    detail: 'You are signed in here as another user, so this sign-in was not used.',
    page: {
      title: 'Another user is signed in',
      advice: 'Sign out, then sign in as the other user. Or use another account, or continue as the current user.',
    },
    words: 'Another user was signed in with this browser, so the sign-in was not used.',
    advice: 'Nothing was stored. The user has to sign out before signing in as another.',
  },
  link_ended: {
    code: 'not_found',
    helper: 'you',
    failedAt: 'connection',
    detail: 'The link was used, was revoked, or is older than 30 minutes, so nothing was connected.',
    page: { title: 'This link no longer works', advice: 'Ask for a new link where you got this one.' },
    words: 'The connect link had been used or revoked, or had expired, when the user came back.',
    advice: 'Nothing was stored. If the connection is still needed, the service can create another link.',
    isRefusal: true,
  },
  link_other_account: {
    code: 'not_allowed',
    helper: 'you',
    failedAt: 'connection',
    detail: 'You chose a different account than the one that this link is for, so nothing was connected.',
    page: {
      title: 'Nothing was connected',
      advice: 'Open the link again, and choose the account that you sign in with here.',
    },
    words: 'The user came back from the provider with a different account than the one of the connect link.',
    advice: 'Nothing was stored. The link still works: the user can open it again and choose their own account.',
    isRefusal: true,
  },
  not_permitted: {
    code: 'not_allowed',
    helper: 'administrator',
    failedAt: 'permitted',
    isRefusal: true,
    detail: 'Your account may not sign in here.',
    words: ({ observation }) =>
      `The app’s rule for who may sign in excludes this account${observation ? `: ${observationWords(observation)}` : ''}.`,
    advice: ({ observation }) =>
      observation
        ? observationAdvice(observation)
        : 'Compare the claim in that rule with the one that the provider sends for this account.',
    field: 'signIn',
    variants: [
      {
        when: ({ disabled }) => disabled === true,
        words: 'This user is disabled.',
        advice: 'Enable the user again if they should sign in.',
        field: undefined,
      },
      {
        when: ({ check }) => check === 'tenant',
        causeCode: 'other_tenant',
        failedAt: 'id_token_issuer',
        words: 'The ID token was issued for a tenant that the app does not name.',
        advice: 'If users of this tenant should sign in, add its id to the values of the app’s rule.',
      },
      ...OBSERVATIONS.map((seen) => ({
        causeCode: `claim_${seen}`,
        when: ({ observation }: SignInFacts) => observation?.seen === seen,
      })),
    ],
  },
  step_up_refused: {
    code: 'step_up_required',
    helper: 'you',
    failedAt: 'permitted',
    detail:
      'The identity provider did not ask you for the stronger sign-in that the administration requires, or you did not complete it. Your account there may lack a second factor.',
    words: 'The ID token lacks the acr that ADMIN_ACR requires, or its sign-in is too old.',
    advice:
      'Compare ADMIN_ACR with the acr values of the provider, and check that this account has a second factor there.',
  },
  auth_time_missing: {
    code: 'step_up_required',
    helper: 'provider',
    failedAt: 'permitted',
    detail: 'The identity provider did not say when you last signed in there, and the administration requires that.',
    page: {
      title: 'You cannot open the administration',
      advice: 'Ask the administrator of the identity provider to send the claim “auth_time”, then try again.',
    },
    words: 'The ID token has no auth_time, although max_age asked for one.',
    advice:
      'Ask the provider to send auth_time (OpenID Connect Core, section 2). The administration accepts no sign-in of unknown age.',
  },
  demand_not_met: {
    code: 'step_up_required',
    helper: 'you',
    failedAt: 'permitted',
    detail:
      'The identity provider did not confirm the stronger or newer sign-in that this app demands, so nothing was changed. Your account there may lack a second factor.',
    page: { title: 'Your sign-in was not confirmed', advice: 'Try again, and complete every step at the provider.' },
    words: 'The acr of the ID token is none of those that the platform demands (acr_values).',
    advice: 'Compare the acr values of the provider with those of the platform. The account may lack a second factor.',
    variants: [
      {
        when: ({ unmet }) => unmet === 'auth_time_missing',
        words: 'The ID token has no auth_time, although max_age asked for one.',
        advice:
          'Ask the provider to send auth_time (OpenID Connect Core, section 2): the platform demands a recent sign-in.',
      },
      {
        when: ({ unmet }) => unmet === 'auth_time',
        words: 'The sign-in at the provider is older than the platform demands (max_age), or in the future.',
        advice:
          'The provider must ask the user again for max_age (OpenID Connect Core, section 3.1.2.1). Compare the clocks, too.',
      },
    ],
  },
  demand_other_account: {
    code: 'not_allowed',
    helper: 'you',
    failedAt: 'permitted',
    detail: 'You chose a different account than the connected one, so nothing was changed.',
    page: {
      title: 'Your sign-in was not confirmed',
      advice: 'Try again with the connected account. To connect another one, choose “Use another account”.',
    },
    words: 'The user came back with a different account than the one that the platform demands a sign-in of.',
    advice: 'Nothing was stored. The user can try again.',
    isRefusal: true,
  },
  ended_by_provider: {
    code: 'sign_in_required',
    helper: 'you',
    failedAt: 'session',
    detail: 'Your provider signed you out while you were signing in here. Sign in again.',
    words: 'The provider ended the user’s session during the sign-in.',
    advice: 'The user can sign in again. If it happens often, look in the provider’s log for what ends the session.',
  },
  session_not_saved: {
    code: 'storage_unavailable',
    helper: 'administrator',
    failedAt: 'session',
    detail: 'Your sign-in could not be saved, so you are not signed in. Try again in a moment.',
    words: 'The session could not be saved: the storage did not respond in time.',
    advice: 'Check the storage. The user can sign in again once it responds.',
  },
  connection_not_saved: {
    code: 'storage_unavailable',
    helper: 'administrator',
    failedAt: 'connection',
    detail: 'Your connection could not be saved, or not completely. Try again in a moment.',
    words: 'The connection could not be saved: the storage did not respond in time.',
    advice: 'Check the storage. The user can try again once it responds.',
  },
} satisfies Record<string, Failure>;

export type SignInFailure = keyof typeof FAILURES;

/** Failures of a callback whose request is gone. They can lead to the start page, which shows `detail`. */
export const GONE_FAILURES = [
  'state_expired',
  'no_longer_pending',
  'cookie_missing',
] as const satisfies readonly SignInFailure[];
/** Failures of a request that does not prove to come from the browser of the attempt, so they do not end it. */
export const UNPROVEN_FAILURES = [
  'cookie_missing',
  'session_ended',
  'form_post',
] as const satisfies readonly SignInFailure[];
export type GoneFailure = (typeof GONE_FAILURES)[number];

export const SIGN_IN_FAILURES: Readonly<Record<SignInFailure, Failure>> = FAILURES;

/** Returns the entry of a failure, with the variant that its facts match. */
export function failureOf(name: SignInFailure, facts: SignInFacts): Failure {
  const failure = SIGN_IN_FAILURES[name];
  return { ...failure, ...failure.variants?.find(({ when }) => when(facts)) };
}

function inBrackets(...values: (string | number | undefined)[]): string {
  const defined = values.filter((value) => value !== undefined);
  const words = defined.map((value) => (typeof value === 'number' ? `status ${value}` : value));
  return words.length === 0 ? '' : ` (${words.join(', ')})`;
}

function skewOf(secondsAhead: number | undefined): string {
  if (secondsAhead === undefined) return 'not the same as';
  return `${Math.abs(secondsAhead)} s ${secondsAhead < 0 ? 'behind' : 'ahead of'}`;
}
