/** Registers a client at a provider (RFC 7591, OpenID Connect Dynamic Registration) and deletes it (RFC 7592). */
import { z } from 'zod';
import { isObject } from '../../shared/json.ts';
import { type CallLimits, type Outbound, OutboundError } from '../../shared/outbound/outbound.ts';
import { TOKEN_ENDPOINT_AUTH_METHODS } from '../../shared/provider/connected-app.ts';
import { failedCallText, isLimit, LIMITED_WORDS } from '../../shared/provider/provider-error.ts';

export interface RequestedClient {
  name: string;
  callbackUrls: readonly string[];
  scopes: readonly string[];
  tokenEndpointAuthMethod: (typeof TOKEN_ENDPOINT_AUTH_METHODS)[number];
  postLogoutUrl: string;
  backchannelLogoutUrl: string;
  /** Our public keys, for private_key_jwt. */
  jwksUrl: string;
}

/** The registered client. The provider may choose another authentication method than the requested one. */
interface IssuedClient {
  clientId: string;
  clientSecret: string | undefined;
  /** Milliseconds since the epoch; undefined if it does not expire. */
  clientSecretExpiresAt: number | undefined;
  tokenEndpointAuthMethod: (typeof TOKEN_ENDPOINT_AUTH_METHODS)[number];
  /** For deleting the registration; undefined if the provider does not support that. */
  management: ClientManagement | undefined;
}

export interface ClientManagement {
  /** `registration_client_uri`. */
  url: string;
  /** `registration_access_token`. */
  token: string;
}

/** How the deletion of a registration ended. */
export type Withdrawal =
  | { outcome: 'deleted' }
  | { outcome: 'refused'; status: number }
  /** `words`: the cause and what to do about it. */
  | { outcome: 'unreachable'; words: string };

type RegistrationOutcome = { client: IssuedClient; fault?: never } | { client?: never; fault: string };

const LIMITS: CallLimits = { deadlineMilliseconds: 10_000, maxBytes: 256 * 1024 };

/** The last second that a `Date` can hold. */
const MAX_DATE_SECONDS = 8_640_000_000_000;

const clientSchema = z.object({
  client_id: z.string().min(1).max(500),
  client_secret: z.string().min(1).max(2000).optional(),
  // In seconds; 0 means that it does not expire. Any other value is ignored.
  client_secret_expires_at: z.int().min(0).max(MAX_DATE_SECONDS).optional().catch(undefined),
  token_endpoint_auth_method: z.enum(TOKEN_ENDPOINT_AUTH_METHODS).optional(),
});

const managementSchema = z.object({
  registration_client_uri: z.url().max(2000),
  registration_access_token: z
    .string()
    .max(5000)
    .regex(/^[A-Za-z0-9\-._~+/]+=*$/),
});

/** Neither function throws for a failure of the provider. */
export interface DynamicRegistration {
  /**
   * Registers the client once. Deletes a registration that cannot be used.
   * @param endpoint the provider's `registration_endpoint`
   * @param initialAccessToken required by some providers (RFC 7591 section 3); not stored
   */
  register(
    endpoint: string,
    requested: RequestedClient,
    initialAccessToken: string | undefined,
  ): Promise<RegistrationOutcome>;
  /** Deletes the registration (RFC 7592 section 2.3). */
  withdraw(management: ClientManagement): Promise<Withdrawal>;
}

export function createDynamicRegistration({ outbound }: { outbound: Pick<Outbound, 'fetch'> }): DynamicRegistration {
  const withdraw: DynamicRegistration['withdraw'] = async ({ url, token }) => {
    try {
      const headers = { accept: 'application/json', ...bearer(token) };
      const { ok, status } = await outbound.fetch(url, { method: 'DELETE', headers }, LIMITS);
      return ok ? { outcome: 'deleted' } : { outcome: 'refused', status };
    } catch (error) {
      if (!(error instanceof OutboundError)) throw error;
      return { outcome: 'unreachable', words: failedCallText(error) };
    }
  };

  return {
    withdraw,
    async register(endpoint, requested, initialAccessToken) {
      const headers = {
        accept: 'application/json',
        'content-type': 'application/json',
        ...(initialAccessToken && bearer(initialAccessToken)),
      };
      try {
        const init = { method: 'POST', headers, body: JSON.stringify(clientMetadata(requested)) };
        const response = await outbound.fetch(endpoint, init, LIMITS);
        const body: unknown = await response.json().catch(() => undefined);
        const management = managementIn(body, endpoint);
        const outcome = registrationOutcome(response.status, body, requested, management);
        if (outcome.fault !== undefined && response.ok && management) await withdraw(management);
        return outcome;
      } catch (error) {
        if (!(error instanceof OutboundError)) throw error;
        return { fault: failedCallText(error) };
      }
    },
  };
}

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

function clientMetadata(requested: RequestedClient): Record<string, unknown> {
  return {
    client_name: requested.name,
    redirect_uris: requested.callbackUrls,
    post_logout_redirect_uris: [requested.postLogoutUrl],
    backchannel_logout_uri: requested.backchannelLogoutUrl,
    backchannel_logout_session_required: true,
    response_types: ['code'],
    grant_types: ['authorization_code', 'refresh_token'],
    token_endpoint_auth_method: requested.tokenEndpointAuthMethod,
    scope: requested.scopes.join(' '),
    ...(requested.tokenEndpointAuthMethod === 'private_key_jwt' ? { jwks_uri: requested.jwksUrl } : {}),
  };
}

function registrationOutcome(
  status: number,
  body: unknown,
  requested: RequestedClient,
  management: ClientManagement | undefined,
): RegistrationOutcome {
  if (status === 401 || status === 403) {
    return { fault: 'The provider requires an initial access token, or does not accept this one.' };
  }
  if (isLimit({ status })) return { fault: LIMITED_WORDS };
  if (status !== 200 && status !== 201) return { fault: refusal(status, body) };
  const parsed = clientSchema.safeParse(body);
  if (!parsed.success) return { fault: 'The response of the provider is not a client registration.' };
  const { client_id: clientId, client_secret: clientSecret, token_endpoint_auth_method: method } = parsed.data;
  const { client_secret_expires_at: expiresAtSeconds } = parsed.data;
  const tokenEndpointAuthMethod = method ?? requested.tokenEndpointAuthMethod;
  if (tokenEndpointAuthMethod.startsWith('client_secret_') && clientSecret === undefined) {
    return { fault: 'The provider registered the app but issued no client secret: register it there by hand.' };
  }
  const clientSecretExpiresAt = expiresAtSeconds ? expiresAtSeconds * 1000 : undefined;
  return { client: { clientId, clientSecret, clientSecretExpiresAt, tokenEndpointAuthMethod, management } };
}

/** Refuses a URL of another origin, to which the provider could otherwise make us send a request (R79). */
function managementIn(body: unknown, endpoint: string): ClientManagement | undefined {
  const { data } = managementSchema.safeParse(body);
  if (data === undefined || new URL(data.registration_client_uri).origin !== new URL(endpoint).origin) return undefined;
  return { url: data.registration_client_uri, token: data.registration_access_token };
}

/** The error codes of RFC 7591 section 3.2.2. The provider's description is not repeated. */
const REFUSALS: Readonly<Record<string, string>> = {
  invalid_redirect_uri: 'The provider does not accept the callback URLs.',
  invalid_client_metadata:
    'The provider does not accept part of the registration, such as the scopes or the authentication method.',
  invalid_software_statement: 'The provider requires a software statement: register the app there by hand.',
  unapproved_software_statement: 'The provider requires a software statement: register the app there by hand.',
};

function refusal(status: number, body: unknown): string {
  const code = isObject(body) ? String(body.error) : '';
  return REFUSALS[code] ?? `The provider refused to register the app (status ${status}).`;
}
