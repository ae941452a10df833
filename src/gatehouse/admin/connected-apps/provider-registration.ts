/** Registers an app at its provider and here in one step, if the provider lets clients register themselves (RFC 7591). */
import type { Request } from 'express';
import { z } from 'zod';
import { AppError } from '../../../shared/errors.ts';
import { providerUrls } from '../../../shared/provider/connected-app.ts';
import type { ChangeTrail } from '../../audit/audit-change.ts';
import type { RegisteredApp } from '../../connected-apps/app-registry.ts';
import type { DynamicRegistration, RequestedClient, Withdrawal } from '../../connected-apps/dynamic-registration.ts';
import type { ReadProviderFacts } from '../../connected-apps/provider-facts.ts';
import { audited } from '../change.ts';
import type { ConnectedAppChanges } from './changes.ts';
import { newApp } from './view.ts';
import { type Withdraw, withdrawalWords } from './withdrawal.ts';

/** An app without the fields that the provider assigns. */
export const wantedApp = newApp.omit({ clientId: true, clientSecret: true }).extend({
  initialAccessToken: z
    .string()
    .regex(/^[!-~]{1,5000}$/, 'Enter the token as the provider showed it, without blanks.')
    .optional()
    .describe('if the provider requires one; not stored'),
});

export type WantedApp = z.output<typeof wantedApp>;

/**
 * Checks the app before the provider registers it. If it then cannot be stored here, the registration at the provider is
 * deleted again. @throws AppError with faults
 */
export type RegisterAtProvider = (req: Request, app: WantedApp) => Promise<RegisteredApp>;

export function createProviderRegistration(parts: {
  changes: ConnectedAppChanges;
  audit: ChangeTrail;
  readProvider: ReadProviderFacts;
  registerAt: DynamicRegistration['register'];
  withdraw: Withdraw;
  publicHref: string;
}): RegisterAtProvider {
  const { changes, audit, readProvider, registerAt, withdraw, publicHref } = parts;

  const endpointOf = async ({ issuer, discoveryUrl }: WantedApp): Promise<string> => {
    const { facts, fault } = await readProvider({ issuer, discoveryUrl });
    if (fault !== undefined) throw refusal('#/issuer', fault);
    if (facts.registrationEndpoint === undefined) throw refusal('#/issuer', NOT_OFFERED);
    return facts.registrationEndpoint;
  };

  return async (req, { initialAccessToken, ...app }) => {
    await changes.checkNew({ ...app, ...STAND_IN });
    const endpoint = await endpointOf(app);
    const { id, name, issuer } = app;
    const entry = { event: 'connected_app.registered', target: { kind: 'connected_app', id, name } } as const;
    const client = await audited(audit, req, { ...entry, facts: { issuer } }, async () => {
      const outcome = await registerAt(endpoint, wantedClient(app, publicHref), initialAccessToken);
      if (outcome.fault !== undefined) throw refusal('#/initialAccessToken', outcome.fault);
      return outcome.client;
    });
    const { clientId, clientSecret, clientSecretExpiresAt, tokenEndpointAuthMethod, management } = client;
    // Public clients and methods that sign need no secret, even if the provider assigns one.
    const secret = tokenEndpointAuthMethod.startsWith('client_secret_') ? clientSecret : undefined;
    const registered = { ...app, clientId, tokenEndpointAuthMethod, clientSecret: secret };
    try {
      const secretExpiresAt = secret === undefined ? undefined : clientSecretExpiresAt;
      return await changes.create(req, registered, { secretExpiresAt, management });
    } catch (error) {
      const withdrawal = management && (await withdraw(req, registered, management));
      throw withWithdrawal(error, withdrawal, clientId);
    }
  };
}

/** Stand-ins, so that the rules can be checked before the provider assigns the real values. */
const STAND_IN = { clientId: 'given by the provider', clientSecret: 'given by the provider' };
const NOT_OFFERED = 'This provider does not support dynamic client registration: register the app there by hand.';

function wantedClient(app: WantedApp, publicHref: string): RequestedClient {
  const urls = providerUrls(app.id, publicHref);
  return {
    name: app.name,
    callbackUrls: app.callbackUrls,
    scopes: app.scopes,
    tokenEndpointAuthMethod: app.tokenEndpointAuthMethod,
    postLogoutUrl: urls.postLogout,
    backchannelLogoutUrl: urls.backchannelLogout,
    jwksUrl: urls.jwks,
  };
}

/** The same error, with the outcome of the withdrawal at the provider. */
function withWithdrawal(error: unknown, withdrawal: Withdrawal | undefined, clientId: string): unknown {
  if (!(error instanceof AppError)) return error;
  const words = withdrawalWords(withdrawal, clientId);
  const { code, detail, faults, headers, logDetail, retryAfterSeconds } = error;
  return new AppError(code, {
    detail: [detail, words].filter(Boolean).join(' '),
    ...(faults ? { faults: [...faults, { pointer: '#', rule: 'registration', detail: words }] } : {}),
    ...(logDetail === undefined ? {} : { logDetail }),
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    headers,
    cause: error,
  });
}

function refusal(pointer: string, detail: string): AppError {
  return new AppError('invalid_request', {
    detail: 'The app was not registered: "errors" says why.',
    faults: [{ pointer, rule: 'registration', detail }],
  });
}
