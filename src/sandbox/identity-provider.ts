/** The identity provider: oidc-provider with the sandbox's settings, and the pages in front of it. */
import type { RequestListener } from 'node:http';
import express, { type NextFunction, type Request, type Response } from 'express';
// Not the package's entry file, which prints a warning on Node releases that are not LTS.
import { Provider, type ProviderContext } from 'oidc-provider/lib/provider.js';
import { createAccountPages } from './account-pages.ts';
import type { ApiTokens } from './api-tokens.ts';
import { createApprovals } from './approvals.ts';
import type { AppRegistry } from './apps.ts';
import { PAGES_CLIENT_ID } from './clients.ts';
import { createConsole } from './console/console.ts';
import { createHome } from './home.ts';
import { createInteractions } from './interactions.ts';
import { createOwnSignIn, ownGrant } from './own-sign-in.ts';
import type { Pages } from './pages.ts';
import type { PlatformCall } from './platform-calls.ts';
import { type Problem, withCause } from './problem.ts';
import type { ProviderRecords } from './provider-records.ts';
import { features, type ProviderSettingsParts, pageSettings, protocolSettings } from './provider-settings.ts';
import { createInitialAccessToken } from './registration.ts';
import { defaultScopes } from './requested-scope.ts';
import type { SecondFactor } from './second-factor.ts';
import { createSignOut } from './sign-out.ts';
import { createSwitches, type Switches } from './switches.ts';
import { createThreadPages } from './thread-pages.ts';
import type { Threads } from './threads.ts';
import { createTokenResponses } from './token-responses.ts';

/** The events of oidc-provider for errors in responses to programs. */
const ERROR_EVENTS = [
  'grant.error',
  'pushed_authorization_request.error',
  'revocation.error',
  'introspection.error',
  'userinfo.error',
] as const;

export interface IdentityProviderParts extends ProviderSettingsParts {
  secondFactor: SecondFactor;
  apiTokens: ApiTokens;
  threads: Threads;
  /** Maximum number of approvals of one app by one account. */
  maxApprovals: number;
  platformUrl: string;
  /** Shown in the console. */
  platformCalls: readonly PlatformCall[];
  tour: RequestListener | undefined;
  now: () => number;
  report: (error: unknown) => void;
}

export interface IdentityProvider {
  app: express.Express;
  /** Creates a token for dynamic registration. @param value the token; default: a random one */
  createInitialAccessToken(value?: string): Promise<string>;
  switches: Switches;
}

export function createIdentityProvider(parts: IdentityProviderParts): IdentityProvider {
  const { issuer, accounts, apps, records, pages, report } = parts;
  const signOut = createSignOut({ accounts, pages });
  const provider = new Provider(issuer, {
    ...protocolSettings(parts),
    ...pageSettings(parts),
    loadExistingGrant: ownGrant,
    features: features(parts, signOut.feature),
  });
  provider.use(createNotFoundPage(pages));
  provider.use(signOut.redirectSignedOut);
  provider.use(signOut.askBeforeSwitching);
  provider.use(createTokenResponses({ apps, records, platformUrl: parts.platformUrl }));
  acceptOldSecrets(provider, apps);
  defaultScopes(provider);
  for (const event of ERROR_EVENTS) {
    provider.on(event, (ctx, error) => {
      // `renderError` adds the cause to pages.
      if (typeof ctx.body !== 'string') ctx.body = withCause(ctx.body as Problem, error);
    });
  }
  provider.on('error', report);
  provider.on('server_error', (_ctx, error) => report(error));

  const approvals = createApprovals({ records, apps, maxApprovals: parts.maxApprovals, ownClientId: PAGES_CLIENT_ID });
  const ownSignIn = createOwnSignIn({ provider, accounts, pages, issuer });
  const initialAccessToken = (value?: string) => createInitialAccessToken(provider, value);
  const pageParts = { ...parts, provider, approvals, ownSignIn, initialAccessToken };

  const app = express();
  app.disable('x-powered-by');
  app.use('/assets', pages.serveAssets);
  app.get('/', createHome(parts));
  app.use('/interaction', createInteractions(pageParts));
  app.get('/signed-in', ownSignIn.finish);
  app.use('/account', createAccountPages(pageParts));
  app.use('/threads', createThreadPages(pageParts));
  app.use(
    '/console',
    createConsole({ ...pageParts, endSessionsOf: createSessionEnding({ provider, records, report }) }),
  );
  if (parts.tour) app.use('/tour', parts.tour);
  app.use(provider.callback());
  app.use((error: unknown, _req: Request, res: Response, _next: NextFunction) => {
    report(error);
    const text = 'The sandbox could not handle this request. Go back to the app and start again.';
    pages.send(res.status(500), 'message', { title: 'Something went wrong here', text });
  });
  const switches = createSwitches({ ...parts, provider, approvals });
  return { app, createInitialAccessToken: initialAccessToken, switches };
}

/** Sends browsers a page for a 404. Programs get the response of the library. */
function createNotFoundPage({ render, headers }: Pages) {
  return async (ctx: ProviderContext, next: () => Promise<void>): Promise<void> => {
    await next();
    if (ctx.status !== 404 || ctx.body || !ctx.req.headers.accept?.includes('text/html')) return;
    ctx.set(headers);
    ctx.body = render('message', { title: 'Not here', text: 'The identity provider has no such page.' });
    ctx.type = 'html';
    ctx.status = 404;
  };
}

/** A replaced secret stays valid for as long as the administrator chose. */
function acceptOldSecrets({ Client: { prototype } }: Provider, apps: AppRegistry): void {
  const { compareClientSecret } = prototype;
  prototype.compareClientSecret = async function compareWithBothSecrets(secret) {
    return (await compareClientSecret.call(this, secret)) || apps.isOldSecret(this.clientId, secret);
  };
}

interface SessionEndingParts {
  provider: Provider;
  records: ProviderRecords;
  report: (error: unknown) => void;
}

/**
 * Ends all sessions of an account, with back-channel logout at its apps. Resolves when every logout token has been
 * delivered or has failed. Failures are only reported.
 */
function createSessionEnding({ provider, records, report }: SessionEndingParts): (accountId: string) => Promise<void> {
  async function notify(clientId: string, accountId: string, sid: string | undefined): Promise<void> {
    const client = await provider.Client.find(clientId);
    if (client?.backchannelLogoutUri !== undefined) await client.backchannelLogout(accountId, sid).catch(report);
  }

  return async function endSessionsOf(accountId: string): Promise<void> {
    const sessions = records.all('Session').filter(({ payload }) => payload.accountId === accountId);
    for (const { id } of sessions) await records.adapterFor('Session').destroy(id);
    const authorizations = sessions.flatMap(({ payload }) =>
      Object.entries((payload.authorizations ?? {}) as Record<string, { sid?: string }>),
    );
    await Promise.all(authorizations.map(([clientId, { sid }]) => notify(clientId, accountId, sid)));
  };
}
