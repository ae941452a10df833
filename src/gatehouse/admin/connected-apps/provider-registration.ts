/** Registers an app at its provider and here in one step, by dynamic client registration (RFC 7591). */
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
import { newAppFields } from './view.ts';
import { type Withdraw, withdrawalWords } from './withdrawal.ts';

/** A new app without the fields that the provider assigns. */
export const appToRegister = newAppFields.omit({ clientId: true, clientSecret: true }).extend({
  initialAccessToken: z
    .string()
    .regex(/^[!-~]{1,5000}$/, 'Enter the token as the provider showed it, without spaces.')
    .optional()
    .describe('if the provider requires one; not stored'),
});

export type AppToRegister = z.output<typeof appToRegister>;

/**
 * Checks the app, and registers it at the provider and here. If it cannot be stored here, the registration at the
 * provider is deleted. @throws AppError with faults
 */
export type RegisterAtProvider = (req: Request, app: AppToRegister) => Promise<RegisteredApp>;

export function createProviderRegistration(parts: {
  changes: ConnectedAppChanges;
  audit: ChangeTrail;
  readProvider: ReadProviderFacts;
  registerAt: DynamicRegistration['register'];
  withdraw: Withdraw;
  publicHref: string;
}): RegisterAtProvider {
  const { changes, audit, readProvider, registerAt, withdraw, publicHref } = parts;

  const endpointOf = async ({ issuer, discoveryUrl }: AppToRegister): Promise<string> => {
    const { facts, fault } = await readProvider({ issuer, discoveryUrl });
    if (fault !== undefined) throw refusal('#/issuer', fault);
    if (facts.registrationEndpoint === undefined) throw refusal('#/issuer', NOT_OFFERED);
    return facts.registrationEndpoint;
  };

  return async (req, { initialAccessToken, ...app }) => {
    await changes.checkNew({ ...app, ...PLACEHOLDERS });
    const endpoint = await endpointOf(app);
    const { id, name, issuer } = app;
    const entry = { event: 'connected_app.registered', target: { kind: 'connected_app', id, name } } as const;
    const client = await audited(audit, req, { ...entry, facts: { issuer } }, async () => {
      const outcome = await registerAt(endpoint, clientMetadata(app, publicHref), initialAccessToken);
      if (outcome.fault !== undefined) throw refusal('#/initialAccessToken', outcome.fault);
      return outcome.client;
    });
    const { clientId, clientSecret, clientSecretExpiresAt, tokenEndpointAuthMethod, management } = client;
    // Public clients and signing methods need no secret, even if the provider assigns one.
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

/** Used to check the other fields before the provider assigns these. */
const PLACEHOLDERS = { clientId: 'assigned by the provider', clientSecret: 'assigned by the provider' };
const NOT_OFFERED = 'This provider does not support dynamic client registration. Register the app there by hand.';

function clientMetadata(app: AppToRegister, publicHref: string): RequestedClient {
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

/** Adds the outcome of the withdrawal at the provider to an error. */
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
