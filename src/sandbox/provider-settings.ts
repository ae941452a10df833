/** The configuration of oidc-provider: lifetimes, scopes, routes and features. */
import { randomBytes } from 'node:crypto';
import { InvalidGrant, InvalidToken } from 'oidc-provider/lib/helpers/errors.js';
import type { Client, GrantedToken, ProviderContext } from 'oidc-provider/lib/provider.js';
import { cookieName } from '../shared/http/cookie-name.ts';
import { type Accounts, claimsOf } from './accounts.ts';
import { isTokenAllowedFrom, refreshTokenSeconds } from './app-settings.ts';
import type { AppRegistry } from './apps.ts';
import { DPOP_ALGORITHMS } from './dpop-proof.ts';
import { createLoginPolicy, PROMPTS, type SecondFactorDemand } from './login-policy.ts';
import type { Pages } from './pages.ts';
import { type Problem, withCause } from './problem.ts';
import type { ProviderRecords } from './provider-records.ts';
import { registrationPolicies } from './registration.ts';
import { completeScope } from './requested-scope.ts';
import { CLAIMS, SCOPES } from './scopes.ts';
import { PASSWORD_ACR, SECOND_FACTOR_ACR } from './second-factor.ts';
import type { SigningKeys } from './signing-keys.ts';

const DAY_SECONDS = 24 * 60 * 60;

export const ROUTES = {
  authorization: '/authorize',
  token: '/token',
  userinfo: '/userinfo',
  jwks: '/jwks',
  introspection: '/introspect',
  revocation: '/revoke',
  end_session: '/sign-out',
  pushed_authorization_request: '/par',
  registration: '/register',
} as const;

export interface ProviderSettingsParts {
  accounts: Accounts;
  apps: AppRegistry;
  records: ProviderRecords;
  signingKeys: SigningKeys;
  pages: Pages;
  /** Its own URL. */
  issuer: string;
  /** The only client that may introspect tokens of other clients. */
  platformClientId: string;
  claimsInIdToken: boolean;
  secondFactorDemand: SecondFactorDemand;
}

export function protocolSettings(parts: ProviderSettingsParts): Record<string, unknown> {
  const { accounts, apps, records } = parts;
  return {
    adapter: (model: string) => (model === 'Client' ? apps.adapter : records.adapterFor(model)),
    jwks: parts.signingKeys.jwks,
    scopes: SCOPES,
    claims: CLAIMS,
    acrValues: [PASSWORD_ACR, SECOND_FACTOR_ACR],
    conformIdTokenClaims: !parts.claimsInIdToken,
    responseTypes: ['code'],
    clientAuthMethods: ['client_secret_basic', 'client_secret_post', 'private_key_jwt', 'none'],
    pkce: {
      required: (_ctx: unknown, { clientId, clientAuthMethod }: Client) =>
        clientAuthMethod === 'none' || apps.settingsOf(clientId).requirePkce,
    },
    extraParams: { scope: completeScope },
    allowOmittingSingleRegisteredRedirectUri: false,
    rotateRefreshToken: ({ oidc }: ProviderContext) =>
      apps.settingsOf(oidc?.client?.clientId).refreshPolicy !== 'reusable',
    clientBasedCORS: () => false,
    discovery: { prompt_values_supported: PROMPTS },
    // The platform accepts the same algorithms.
    enabledJWA: { dPoPSigningAlgValues: DPOP_ALGORITHMS },
    // Drops the library's dispatcher, which refuses loopback addresses.
    fetch: (url: string, { dispatcher: _, ...options }: RequestInit & { dispatcher?: unknown }) =>
      globalThis.fetch(url, options),
    findAccount: async ({ req, oidc }: ProviderContext, id: string, token?: GrantedToken) => {
      const account = accounts.byId(id);
      if (account === undefined || account.disabled) return undefined;
      if (token && !isTokenAllowedFrom(req.socket.remoteAddress, account, apps.settingsOf(token.clientId))) {
        const Refusal = oidc?.route === 'userinfo' ? InvalidToken : InvalidGrant;
        throw new Refusal('this address is not in the networks of the user');
      }
      return { accountId: id, claims: async () => claimsOf(account) };
    },
    // The platform reads them by introspection (RFC 9470 section 6.2).
    extraTokenClaims: ({ oidc }: ProviderContext) => {
      const { AuthorizationCode: code, RefreshToken: refreshToken } = oidc?.entities ?? {};
      const { acr, authTime } = code ?? refreshToken ?? {};
      return { acr, auth_time: authTime };
    },
    ttl: lifetimes(apps),
  };
}

function lifetimes(apps: AppRegistry): Record<string, unknown> {
  const settingsOf = (client: Client | undefined) => apps.settingsOf(client?.clientId);
  return {
    AccessToken: (_ctx: unknown, _token: unknown, client: Client) => settingsOf(client).accessTokenSeconds,
    RefreshToken: (_ctx: unknown, token: { iiat: number }, client: Client) =>
      refreshTokenSeconds(settingsOf(client), token.iiat, Math.floor(Date.now() / 1000)),
    AuthorizationCode: 60,
    IdToken: 60 * 60,
    Interaction: 60 * 60,
    // A grant lasts until the user or the app ends it.
    Grant: 10 * 365 * DAY_SECONDS,
    Session: DAY_SECONDS,
  };
}

export function pageSettings(parts: ProviderSettingsParts): Record<string, unknown> {
  const { pages, accounts, secondFactorDemand, issuer } = parts;
  const nameOf = (cookie: string) => cookieName(`sandbox-${cookie}`, issuer);
  return {
    cookies: {
      names: { session: nameOf('session'), interaction: nameOf('interaction'), resume: nameOf('resume') },
      keys: [randomBytes(32).toString('base64url')],
    },
    routes: ROUTES,
    interactions: {
      policy: createLoginPolicy({ accounts, demand: secondFactorDemand }),
      url: (_ctx: unknown, { uid }: { uid: string }) => `/interaction/${uid}`,
    },
    renderError: async (ctx: ProviderContext, out: Problem, error: { error_detail?: string }) => {
      ctx.type = 'html';
      ctx.set(pages.headers);
      const text = 'The app sent a request that the provider refuses. Details for the operator of the app:';
      ctx.body = pages.render('message', { title: 'This request was refused', text, problem: withCause(out, error) });
    },
  };
}

export function features({ platformClientId, apps }: ProviderSettingsParts, rpInitiatedLogout: object): object {
  return {
    devInteractions: { enabled: false },
    // RFC 8707. If a token request names several resources, the first one applies, because a token is for one resource.
    resourceIndicators: {
      enabled: true,
      defaultResource: (_ctx: unknown, _client: unknown, requested?: string[]) => requested?.[0],
      getResourceServerInfo: () => ({ scope: SCOPES.join(' '), accessTokenFormat: 'opaque' }),
    },
    pushedAuthorizationRequests: { enabled: true },
    dPoP: {
      enabled: true,
      nonceSecret: randomBytes(32),
      requireNonce: ({ oidc }: ProviderContext) => apps.settingsOf(oidc?.client?.clientId).requireDpopNonce,
    },
    backchannelLogout: { enabled: true },
    registration: {
      enabled: true,
      initialAccessToken: true,
      issueRegistrationAccessToken: true,
      policies: registrationPolicies,
    },
    registrationManagement: { enabled: true },
    rpInitiatedLogout,
    revocation: {
      enabled: true,
      allowedPolicy: async (_ctx: unknown, client: Client, token: GrantedToken) => client.clientId === token.clientId,
    },
    introspection: {
      enabled: true,
      allowedPolicy: async (_ctx: unknown, client: Client, token: GrantedToken) =>
        client.clientId === platformClientId || client.clientId === token.clientId,
    },
  };
}
