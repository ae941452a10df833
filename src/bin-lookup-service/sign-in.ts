/**
 * Registration and sign-in by the OpenID Connect code flow with PKCE. Nonce and verifier are not stored: they are
 * derived from the state and a random value in a cookie of the browser.
 */
import { AppError, type AppErrorOptions } from '../shared/errors.ts';
import type { AuthorizationRequest } from '../shared/provider/authorization-request.ts';
import { type ConnectedApp, connectedAppSchema } from '../shared/provider/connected-app.ts';
import { deriveNonceAndVerifier } from '../shared/provider/nonce-and-verifier.ts';
import type { ProviderClient } from '../shared/provider/provider-client.ts';
import { isUnreadable, ProviderError } from '../shared/provider/provider-error.ts';
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
  /**
   * Returns the identity, and stores no account. Returns undefined if the sign-in is over: it was finished, it has
   * expired, or the browser has started too many since. One that ended with a refusal is refused again in the same way.
   * @param callback URL with all its parameters
   * @param check refuses an identity with an AppError
   * @throws AppError
   */
  finish(
    browserSecrets: readonly string[],
    callback: URL,
    check: (identity: Identity) => void,
  ): Promise<Identity | undefined>;
}

const PENDING_SECONDS = 600;
const MAX_PENDING = 10;
const SINGLE_PARAMETERS = ['code', 'state', 'iss', 'error', 'error_description', 'response'];
const SCOPES = ['openid', 'profile', 'email'];

const INVALID_RESPONSE = 'The response of your provider is incomplete, or has a parameter twice.';
const NO_COOKIE =
  'This browser has no cookie of this sign-in: it was started in another browser, or you have signed out since.';

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

  const fail = (
    code: 'invalid_request' | 'not_allowed' | 'provider_error' | 'provider_unavailable',
    options: AppErrorOptions,
  ) => new AppError(code, { ...options, action: { label: 'Try again', url: parts.signInUrl } });

  const toAppError = (cause: unknown): AppError => {
    if (!(cause instanceof ProviderError)) return fail('provider_error', { cause });
    const details = { cause, logDetail: `${cause.failure}: ${cause.reason}` };
    if (cause.reason === 'authorization_refused')
      return fail('not_allowed', { ...details, detail: 'Your provider did not confirm the sign-in.' });
    const { retryAfterSeconds, limited } = cause.facts;
    const isUnavailable = cause.failure === 'unavailable' && !isUnreadable(cause.reason);
    return fail(isUnavailable ? 'provider_unavailable' : 'provider_error', {
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

  const exchange = async ({ search }: URL, request: AuthorizationRequest): Promise<Identity> => {
    const callbackUrl = new URL(redirectUri);
    callbackUrl.search = search;
    const tokenResponse = await provider.exchangeCode(app, callbackUrl, request).catch((cause: unknown) => {
      throw toAppError(cause);
    });
    if (!tokenResponse.claims) throw fail('provider_error', { logDetail: 'no ID token' });
    const claims = await withName(tokenResponse.claims, tokenResponse);
    return { issuer: app.issuer, subject: claims.sub, name: text(claims.name), email: text(claims.email) };
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

    async finish(browserSecrets, callback, check) {
      const { searchParams } = callback;
      const state = searchParams.get('state');
      if (!state || SINGLE_PARAMETERS.some((name) => searchParams.getAll(name).length > 1))
        throw fail('invalid_request', { detail: INVALID_RESPONSE });
      if (browserSecrets.length === 0) throw fail('invalid_request', { detail: NO_COOKIE });
      // A refusal spends nothing, so that a reload shows it again.
      const find = searchParams.has('error') ? pending.has : pending.take;
      const browserSecret = await findLast(browserSecrets, (secret) => find(secret, state, clock()));
      if (browserSecret === undefined) {
        const refusal = await firstOf(browserSecrets, (secret) => pending.refusal(secret, state, clock()));
        if (refusal) throw new AppError(refusal.code, { ...refusal, logDetail: 'shown again' });
        return undefined;
      }
      try {
        const identity = await exchange(callback, requestOf(browserSecret, state, redirectUri));
        check(identity);
        return identity;
      } catch (error) {
        if (error instanceof AppError && !searchParams.has('error'))
          await pending.refuse(browserSecret, state, clock(), error);
        throw error;
      }
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

type Refusal = Pick<AppError, 'code' | 'detail' | 'words' | 'action' | 'retryAfterSeconds'>;
/** `refusal`: the sign-in is over, and ended with it. */
type PendingStates = [hash: string, startedAt: number, refusal?: Refusal][];

/**
 * Stores the states of pending sign-ins. Each is valid once, in its browser. A browser has at most ten, and ten that
 * were refused, which displace no pending one.
 */
function createPending({ store }: { store: Store }) {
  const current = (states: PendingStates, now: number) =>
    states.filter(([, startedAt]) => startedAt > now - PENDING_SECONDS * 1000);

  /** @param change gets the states that have not expired, and returns undefined to change nothing */
  const update = (browserSecret: string, now: number, change: (states: PendingStates) => PendingStates | undefined) =>
    updateRecord<PendingStates>(store, keys.planSignIns(browserSecret), (stored = []) => change(current(stored, now)), {
      lifetimeSeconds: PENDING_SECONDS,
    });

  return {
    async put(browserSecret: string, state: string, now: number): Promise<void> {
      await update(browserSecret, now, (states) => [
        ...states.filter(([, , refusal]) => refusal),
        ...states.filter(([, , refusal]) => !refusal).slice(1 - MAX_PENDING),
        [hashOf(state), now],
      ]);
    },
    async has(browserSecret: string, state: string, now: number): Promise<boolean> {
      const stored = await store.get(keys.planSignIns(browserSecret));
      const states: PendingStates = stored ? JSON.parse(stored.value) : [];
      return current(states, now).some(([hash, , refusal]) => hash === hashOf(state) && !refusal);
    },
    /** Keeps how the sign-in ended, for a reload of its callback. */
    async refuse(browserSecret: string, state: string, now: number, error: AppError): Promise<void> {
      const { code, detail, words, action, retryAfterSeconds } = error;
      await update(browserSecret, now, (states) => [
        ...states.filter(([, , refusal]) => refusal).slice(1 - MAX_PENDING),
        ...states.filter(([, , refusal]) => !refusal),
        [hashOf(state), now, { code, detail, words, action, retryAfterSeconds }],
      ]);
    },
    async refusal(browserSecret: string, state: string, now: number): Promise<Refusal | undefined> {
      const stored = await store.get(keys.planSignIns(browserSecret));
      const states: PendingStates = stored ? JSON.parse(stored.value) : [];
      return current(states, now).find(([hash]) => hash === hashOf(state))?.[2];
    },
    async take(browserSecret: string, state: string, now: number): Promise<boolean> {
      const updated = await update(browserSecret, now, (states) => {
        const remaining = states.filter(([hash, , refusal]) => hash !== hashOf(state) || refusal);
        return remaining.length === states.length ? undefined : remaining;
      });
      return updated !== undefined;
    },
  };
}

async function findLast(secrets: readonly string[], isRight: (secret: string) => Promise<boolean>) {
  for (const secret of secrets.toReversed()) if (await isRight(secret)) return secret;
  return undefined;
}

async function firstOf<T>(secrets: readonly string[], find: (secret: string) => Promise<T | undefined>) {
  for (const secret of secrets) {
    const found = await find(secret);
    if (found !== undefined) return found;
  }
  return undefined;
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' ? cutText(value.trim(), 200) || undefined : undefined;
}
