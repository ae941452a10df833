/**
 * Registration and sign-in by the OpenID Connect code flow with PKCE. Nonce and verifier are not stored: they are
 * derived from the state and the random value in the browser's cookie.
 */
import { AppError, type AppErrorOptions } from '../shared/errors.ts';
import type { AuthorizationRequest } from '../shared/provider/authorization-request.ts';
import { type ConnectedApp, connectedAppSchema } from '../shared/provider/connected-app.ts';
import { deriveNonceAndVerifier } from '../shared/provider/nonce-and-verifier.ts';
import type { ProviderClient } from '../shared/provider/provider-client.ts';
import { ProviderError } from '../shared/provider/provider-error.ts';
import type { Claims, TokenResponse } from '../shared/provider/token-response.ts';
import { hashOf, keys } from '../shared/storage/keys.ts';
import type { Store } from '../shared/storage/store.ts';
import { updateRecord } from '../shared/storage/update-record.ts';
import { cutText } from '../shared/text.ts';
import type { Identity } from './accounts.ts';
import type { SignInSettings } from './settings.ts';

export interface SignIn {
  /** The name of the provider on the button. */
  name: string;
  /** Returns the URL of the authorization request. @throws AppError */
  start(browserSecret: string): Promise<string>;
  /** Returns the identity, and stores no account. @param callback URL with all its parameters @throws AppError */
  finish(browserSecret: string | undefined, callback: URL): Promise<Identity>;
}

const PENDING_SECONDS = 600;
const MAX_PENDING = 10;
const SINGLE_PARAMETERS = ['code', 'state', 'iss', 'error', 'error_description', 'response'];
const SCOPES = ['openid', 'profile', 'email'];

const LIMITED = {
  words: { title: 'The sign-in provider is busy' },
  detail: 'The identity provider limits how often it may be called, and accepts no more calls at the moment.',
};

/**
 * @param parts `redirectUri`: as registered at the provider; `signInUrl`: starts a new sign-in; `clock`: milliseconds
 * since the epoch
 */
export function createSignIn(parts: {
  settings: SignInSettings;
  provider: ProviderClient;
  store: Store;
  clock: () => number;
  randomToken: () => string;
  redirectUri: string;
  signInUrl: string;
}): SignIn {
  const { settings, provider, clock, randomToken, redirectUri } = parts;
  const app = appOf(settings, redirectUri);
  const pending = createPending(parts);

  const fail = (code: 'invalid_request' | 'not_allowed' | 'provider_unavailable', options: AppErrorOptions) =>
    new AppError(code, { ...options, action: { label: 'Try again', url: parts.signInUrl } });

  const toAppError = (cause: unknown): AppError => {
    if (!(cause instanceof ProviderError)) return fail('provider_unavailable', { cause });
    const details = { cause, logDetail: `${cause.failure}: ${cause.reason}` };
    if (cause.reason === 'authorization_refused')
      return fail('not_allowed', { ...details, detail: 'Your provider did not confirm the sign-in.' });
    const { retryAfterSeconds, limited } = cause.facts;
    return fail('provider_unavailable', {
      ...details,
      ...(limited && LIMITED),
      ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    });
  };

  const withName = async (claims: Claims, tokenResponse: TokenResponse): Promise<Claims> => {
    if (claims.name !== undefined && claims.email !== undefined) return claims;
    // A missing name must not fail the sign-in.
    const userinfo = await provider.userinfo(app, tokenResponse, claims.sub).catch(() => undefined);
    return { ...userinfo, ...claims };
  };

  return {
    name: settings.name,

    async start(browserSecret) {
      const state = randomToken();
      const request = requestOf(browserSecret, state, redirectUri);
      const url = await provider.authorizationUrl(app, request).catch((cause: unknown) => {
        throw toAppError(cause);
      });
      await pending.put(browserSecret, state, clock());
      return url;
    },

    async finish(browserSecret, callback) {
      const state = callback.searchParams.get('state');
      const hasDuplicates = SINGLE_PARAMETERS.some((name) => callback.searchParams.getAll(name).length > 1);
      const isPending = !hasDuplicates && state && browserSecret && (await pending.take(browserSecret, state, clock()));
      if (!isPending)
        throw fail('invalid_request', { detail: 'This sign-in was not started in this browser, or it has expired.' });
      const callbackUrl = new URL(redirectUri);
      callbackUrl.search = callback.search;
      const tokenResponse = await provider
        .exchangeCode(app, callbackUrl, requestOf(browserSecret, state, redirectUri))
        .catch((cause: unknown) => {
          throw toAppError(cause);
        });
      if (!tokenResponse.claims) throw fail('provider_unavailable', { logDetail: 'no ID token' });
      const claims = await withName(tokenResponse.claims, tokenResponse);
      return { issuer: app.issuer, subject: claims.sub, name: text(claims.name), email: text(claims.email) };
    },
  };
}

function appOf({ issuer, name, clientId, clientSecret }: SignInSettings, redirectUri: string): ConnectedApp {
  const registration = {
    id: 'bin-lookup-service',
    name,
    issuer,
    clientId,
    scopes: SCOPES,
    callbackUrls: [redirectUri],
  };
  return Object.freeze({ ...connectedAppSchema.parse(registration), clientSecret });
}

function requestOf(browserSecret: string, state: string, redirectUri: string): AuthorizationRequest {
  return { redirectUri, ...deriveNonceAndVerifier(browserSecret, state), scopes: SCOPES };
}

type PendingStates = [hash: string, startedAt: number][];

/** Stores the states of pending sign-ins. Each is valid once, in its browser. A browser has at most ten. */
function createPending({ store }: { store: Store }) {
  /** @param change gets the states that have not expired, and returns undefined to change nothing */
  const update = (browserSecret: string, now: number, change: (states: PendingStates) => PendingStates | undefined) =>
    updateRecord<PendingStates>(
      store,
      keys.planSignIns(browserSecret),
      (stored = []) => change(stored.filter(([, startedAt]) => startedAt > now - PENDING_SECONDS * 1000)),
      { lifetimeSeconds: PENDING_SECONDS },
    );

  return {
    async put(browserSecret: string, state: string, now: number): Promise<void> {
      await update(browserSecret, now, (states) => [...states.slice(1 - MAX_PENDING), [hashOf(state), now]]);
    },
    async take(browserSecret: string, state: string, now: number): Promise<boolean> {
      const updated = await update(browserSecret, now, (states) => {
        const remaining = states.filter(([hash]) => hash !== hashOf(state));
        return remaining.length === states.length ? undefined : remaining;
      });
      return updated !== undefined;
    },
  };
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' ? cutText(value.trim(), 200) || undefined : undefined;
}
