/** Owns the identity provider: oidc-provider with the sandbox's settings, and the pages in front of it. */
import { randomBytes } from 'node:crypto';
import express, { type NextFunction, type Request, type Response } from 'express';
// Not the package's entry file: that one prints a warning on every Node release that is not a long-term one yet.
import { type GrantedToken, Provider, type ProviderContext } from 'oidc-provider/lib/provider.js';
import { type Accounts, claimsOf } from './accounts.ts';
import { clientMetadata, resourceServerMetadata, type SandboxClient } from './clients.ts';
import { createInteractions } from './interactions.ts';
import { createPages, type Pages } from './pages.ts';
import { createProviderRecords } from './provider-records.ts';
import { CLAIMS, SCOPES } from './scopes.ts';
import { createSignOut } from './sign-out.ts';
import type { SigningKeys } from './signing-keys.ts';

const DAY_SECONDS = 24 * 60 * 60;

/** What becomes of refresh tokens that are used. May be changed while the sandbox runs. */
export interface RefreshTokens {
  /**
   * `rotating`: each counts once, and a second use ends the whole grant. `reusable`: one for good. `grace`: rotating, but one
   * that was used may be used again for a while, as a client does whose answer was lost.
   */
  policy: 'rotating' | 'reusable' | 'grace';
  /** With `grace`: how long, counted from the first use. */
  graceSeconds: number;
}

export interface IdentityProviderParts {
  issuer: string;
  accounts: Accounts;
  clients: readonly SandboxClient[];
  /** The platform, which alone may introspect tokens of others. */
  resourceServer: { clientId: string; clientSecret: string };
  signingKeys: SigningKeys;
  accessTokenSeconds: number;
  /** Whether the claims of a scope are in the ID token too, or only at userinfo. */
  claimsInIdToken: boolean;
  refreshTokens: RefreshTokens;
  now: () => number;
  report: (error: unknown) => void;
}

export function createIdentityProvider(parts: IdentityProviderParts): express.Express {
  const { issuer, accounts, report } = parts;
  const pages = createPages();
  const signOut = createSignOut({ accounts, pages });
  const provider = new Provider(issuer, {
    ...protocolSettings(parts),
    ...pageSettings(pages),
    features: features(parts, signOut.feature),
  });
  provider.use(signOut.goStraightBack);
  provider.on('error', report);
  provider.on('server_error', (_ctx, error) => report(error));

  const app = express();
  app.disable('x-powered-by');
  app.get('/', (_req, res) => {
    const { all, password } = accounts;
    res.set(pages.headers).send(pages.render('home', { title: 'Identity provider', issuer, accounts: all, password }));
  });
  app.use('/assets', pages.assets);
  app.use('/interaction', createInteractions({ provider, accounts, pages }));
  app.use(provider.callback());
  app.use((error: unknown, _req: Request, res: Response, _next: NextFunction) => {
    report(error);
    const text = 'The sandbox failed at this request. Go back to the app and start again.';
    res
      .status(500)
      .set(pages.headers)
      .send(pages.render('message', { title: 'Something went wrong here', text }));
  });
  return app;
}

function protocolSettings({ clients, resourceServer, accounts, ...parts }: IdentityProviderParts) {
  const { clientId, clientSecret } = resourceServer;
  const { refreshTokens, now } = parts;
  const graceSeconds = () => (refreshTokens.policy === 'grace' ? refreshTokens.graceSeconds : 0);
  return {
    adapter: createProviderRecords({ now, maxRecords: 50_000, graceSeconds }),
    clients: [...clients.map(clientMetadata), resourceServerMetadata(clientId, clientSecret)],
    jwks: parts.signingKeys.jwks,
    scopes: SCOPES,
    claims: CLAIMS,
    conformIdTokenClaims: !parts.claimsInIdToken,
    responseTypes: ['code'],
    clientAuthMethods: ['client_secret_basic', 'client_secret_post', 'none'],
    pkce: { required: () => true },
    allowOmittingSingleRegisteredRedirectUri: false,
    rotateRefreshToken: () => refreshTokens.policy !== 'reusable',
    clientBasedCORS: () => false,
    findAccount: async (_ctx: unknown, id: string) => {
      const account = accounts.byId(id);
      return account && { accountId: id, claims: async () => claimsOf(account) };
    },
    ttl: {
      AccessToken: parts.accessTokenSeconds,
      AuthorizationCode: 60,
      IdToken: 60 * 60,
      Interaction: 60 * 60,
      RefreshToken: 14 * DAY_SECONDS,
      Grant: 14 * DAY_SECONDS,
      Session: DAY_SECONDS,
    },
  };
}

function pageSettings(pages: Pages) {
  return {
    // Cookies know no ports: on a laptop these share a jar with those of the app, so their names must be our own.
    cookies: {
      names: { session: 'sandbox-session', interaction: 'sandbox-interaction', resume: 'sandbox-resume' },
      keys: [randomBytes(32).toString('base64url')],
    },
    routes: {
      authorization: '/authorize',
      token: '/token',
      userinfo: '/userinfo',
      jwks: '/jwks',
      introspection: '/introspect',
      revocation: '/revoke',
      end_session: '/sign-out',
    },
    interactions: { url: (_ctx: unknown, { uid }: { uid: string }) => `/interaction/${uid}` },
    renderError: async (ctx: ProviderContext, out: { error: string; error_description?: string }) => {
      ctx.type = 'html';
      ctx.set(pages.headers);
      const text = 'The app sent a request that the identity provider refuses. Whoever runs the app can use this:';
      ctx.body = pages.render('message', { title: 'This request was refused', text, problem: out });
    },
  };
}

function features({ resourceServer }: IdentityProviderParts, rpInitiatedLogout: object) {
  return {
    devInteractions: { enabled: false },
    dPoP: { enabled: false },
    pushedAuthorizationRequests: { enabled: false },
    resourceIndicators: { enabled: false },
    rpInitiatedLogout,
    revocation: {
      enabled: true,
      allowedPolicy: async (_ctx: unknown, client: { clientId: string }, token: GrantedToken) =>
        client.clientId === token.clientId,
    },
    introspection: {
      enabled: true,
      allowedPolicy: async (_ctx: unknown, client: { clientId: string }, token: GrantedToken) =>
        client.clientId === resourceServer.clientId || client.clientId === token.clientId,
    },
  };
}
