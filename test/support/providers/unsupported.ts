/** Kinds of providers that Gatehouse cannot use, as `docs/providers.md` names them, each as a simulation. */
import { IDENTITY_PROVIDERS } from './identity.ts';
import { type Profile, standardTokens } from './profile.ts';

export interface UnsupportedKind {
  /** The text of its row. */
  kind: string;
  /** The cause in the sign-in record, or of the connection if the refresh fails. */
  cause: string;
  failsAt: 'sign-in' | 'refresh';
  profile: Profile;
}

const OKTA = IDENTITY_PROVIDERS.find(({ preset }) => preset === 'okta') as Profile;

/** Shorter than a session lasts without a request. */
export const LIFETIME_SECONDS = 300;

export const UNSUPPORTED: readonly UnsupportedKind[] = [
  {
    kind: 'refuses PKCE: an authorization request with a `code_challenge`',
    cause: 'provider_refused',
    failsAt: 'sign-in',
    profile: {
      ...OKTA,
      refusesAuthorization: (request) => (request.has('code_challenge') ? 'invalid_request' : undefined),
    },
  },
  {
    kind: 'refuses PKCE: a token request with a `code_verifier`',
    cause: 'token_request_refused',
    failsAt: 'sign-in',
    profile: {
      ...OKTA,
      refusesToken: (form) => (form.has('code_verifier') ? [400, { error: 'invalid_request' }] : undefined),
    },
  },
  {
    kind: 'requires `redirect_uri` with a refresh token',
    cause: 'unclear_refusal',
    failsAt: 'refresh',
    profile: {
      ...OKTA,
      accessTokenSeconds: LIFETIME_SECONDS,
      tokens: standardTokens(LIFETIME_SECONDS),
      refusesToken: (form) =>
        form.get('grant_type') === 'refresh_token' && !form.has('redirect_uri')
          ? [400, { error: 'invalid_request' }]
          : undefined,
    },
  },
  {
    kind: 'has a `token_type` of its own, such as `User Access Token`',
    cause: 'token_type_unknown',
    failsAt: 'sign-in',
    profile: { ...OKTA, tokens: standardTokens(7200, { token_type: 'User Access Token' }) },
  },
  {
    kind: 'issues tokens by `GET` only',
    cause: 'wrong_token_endpoint',
    failsAt: 'sign-in',
    profile: { ...OKTA, refusesToken: (_form, method) => (method === 'GET' ? undefined : [405, '']) },
  },
  {
    kind: 'sends the callback by `POST` only (`form_post`)',
    cause: 'form_post',
    failsAt: 'sign-in',
    profile: { ...OKTA, postsCallback: true },
  },
];
