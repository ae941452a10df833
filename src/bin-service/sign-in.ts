/**
 * Owns how somebody registers or signs in: OpenID Connect code flow with PKCE, bound to the browser. Nothing secret is kept:
 * nonce and verifier follow from the state and from the random value in the browser's own cookie.
 */
import { authorizationProofs } from '../connected-apps/authorization-proofs.ts';
import { type ConnectedApp, connectedAppSchema } from '../connected-apps/connected-app.ts';
import type { AuthorizationRequest, ProviderClient } from '../connected-apps/provider-client.ts';
import { ProviderError } from '../connected-apps/provider-error.ts';
import type { Claims, TokenAnswer } from '../connected-apps/token-answer.ts';
import { AppError, type AppErrorOptions } from '../errors.ts';
import { hashOf, keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';
import type { Account, Accounts } from './accounts.ts';
import type { SignInSettings } from './settings.ts';

export interface SignIn {
  /** For the button. */
  name: string;
  /** Answers the URL of the authorization endpoint. @throws AppError */
  start(browserSecret: string): Promise<string>;
  /** @param callback with all its parameters @throws AppError */
  finish(browserSecret: string | undefined, callback: URL): Promise<Account>;
}

const PENDING_SECONDS = 600;
const MOST_PENDING = 10;
const ONCE = ['code', 'state', 'iss', 'error', 'error_description', 'response'];
const SCOPES = ['openid', 'profile', 'email'];

/** @param parts `redirectUri`: to be registered at the provider; `tryAgain`: where a sign-in begins; `clock`: milliseconds */
export function createSignIn(parts: {
  settings: SignInSettings;
  provider: ProviderClient;
  accounts: Accounts;
  store: Store;
  clock: () => number;
  randomToken: () => string;
  redirectUri: string;
  tryAgain: string;
}): SignIn {
  const { settings, provider, accounts, clock, randomToken, redirectUri } = parts;
  const app = appOf(settings, redirectUri);
  const pending = createPending(parts);

  const fail = (code: 'invalid_request' | 'not_allowed' | 'provider_unavailable', options: AppErrorOptions) =>
    new AppError(code, { ...options, step: { label: 'Try again', url: parts.tryAgain } });

  const asFailure = (cause: unknown): AppError => {
    if (!(cause instanceof ProviderError)) return fail('provider_unavailable', { cause });
    const facts = { cause, logDetail: `${cause.failure}: ${cause.reason}` };
    if (cause.reason === 'authorization_refused')
      return fail('not_allowed', { ...facts, detail: 'Your provider did not confirm the sign-in.' });
    const { retryAfterSeconds } = cause.facts;
    return fail('provider_unavailable', {
      ...facts,
      ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    });
  };

  const withName = async (claims: Claims, answer: TokenAnswer): Promise<Claims> => {
    if (claims.name !== undefined && claims.email !== undefined) return claims;
    // A name is not worth a sign-in.
    const more = await provider.userinfo(app, answer, claims.sub).catch(() => undefined);
    return { ...more, ...claims };
  };

  return {
    name: settings.name,

    async start(browserSecret) {
      const state = randomToken();
      const request = requestOf(browserSecret, state, redirectUri);
      const url = await provider.authorizationUrl(app, request).catch((cause: unknown) => {
        throw asFailure(cause);
      });
      await pending.put(browserSecret, state, clock());
      return url;
    },

    async finish(browserSecret, callback) {
      const state = callback.searchParams.get('state');
      const doubled = ONCE.some((name) => callback.searchParams.getAll(name).length > 1);
      const isOurs = !doubled && state && browserSecret && (await pending.take(browserSecret, state, clock()));
      if (!isOurs)
        throw fail('invalid_request', { detail: 'This sign-in was not begun in this browser, or is too old.' });
      const at = new URL(redirectUri);
      at.search = callback.search;
      const answer = await provider
        .exchangeCode(app, at, requestOf(browserSecret, state, redirectUri))
        .catch((cause: unknown) => {
          throw asFailure(cause);
        });
      if (!answer.claims) throw fail('provider_unavailable', { logDetail: 'no ID token' });
      const claims = await withName(answer.claims, answer);
      const person = { issuer: app.issuer, subject: claims.sub, name: text(claims.name), email: text(claims.email) };
      return accounts.register(person);
    },
  };
}

function appOf({ issuer, name, clientId, clientSecret }: SignInSettings, redirectUri: string): ConnectedApp {
  const registration = { id: 'bin-service', name, issuer, clientId, scopes: SCOPES, callbackUrls: [redirectUri] };
  return Object.freeze({ ...connectedAppSchema.parse(registration), clientSecret });
}

function requestOf(browserSecret: string, state: string, redirectUri: string): AuthorizationRequest {
  return { redirectUri, ...authorizationProofs(browserSecret, state), scopes: SCOPES };
}

/** A state is good once, in the browser that began it, and only so many are kept for one browser. */
function createPending({ store }: { store: Store }) {
  const load = async (key: string, now: number) => {
    const stored = await store.get(key);
    const all = stored ? (JSON.parse(stored.value) as [hash: string, startedAt: number][]) : [];
    const alive = all.filter(([, startedAt]) => startedAt > now - PENDING_SECONDS * 1000);
    return { alive, version: stored?.version ?? 0 };
  };
  const save = (key: string, states: [string, number][], ifVersion: number) =>
    store.write([{ put: key, value: JSON.stringify(states), ifVersion, lifetimeSeconds: PENDING_SECONDS }]);

  return {
    async put(browserSecret: string, state: string, now: number): Promise<void> {
      const key = keys.planSignIns(browserSecret);
      for (;;) {
        const { alive, version } = await load(key, now);
        if (await save(key, [...alive.slice(1 - MOST_PENDING), [hashOf(state), now]], version)) return;
      }
    },
    async take(browserSecret: string, state: string, now: number): Promise<boolean> {
      const key = keys.planSignIns(browserSecret);
      for (;;) {
        const { alive, version } = await load(key, now);
        const rest = alive.filter(([hash]) => hash !== hashOf(state));
        if (rest.length === alive.length) return false;
        if (await save(key, rest, version)) return true;
      }
    },
  };
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value.trim() !== '' ? value.trim().slice(0, 200) : undefined;
}
