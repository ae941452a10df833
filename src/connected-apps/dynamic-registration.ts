/** Owns the registration of an app at a provider that lets clients register themselves (RFC 7591, OpenID Connect Dynamic Registration), and taking it back (RFC 7592). */
import { z } from 'zod';
import type { CallLimits, Outbound } from '../outbound/outbound.ts';
import { TOKEN_ENDPOINT_AUTH_METHODS } from './connected-app.ts';
import { ProviderError } from './provider-error.ts';

export interface WantedClient {
  name: string;
  callbackUrls: readonly string[];
  scopes: readonly string[];
  tokenEndpointAuthMethod: (typeof TOKEN_ENDPOINT_AUTH_METHODS)[number];
  postLogoutUrl: string;
  backchannelLogoutUrl: string;
  /** Our public keys, for private_key_jwt. */
  jwksUrl: string;
}

/** What the provider gave; it may choose another method than the one that was asked for. */
export interface GivenClient {
  clientId: string;
  clientSecret: string | undefined;
  /** Milliseconds since the epoch; undefined where it lasts. */
  clientSecretExpiresAt: number | undefined;
  tokenEndpointAuthMethod: (typeof TOKEN_ENDPOINT_AUTH_METHODS)[number];
  /** Takes the registration back; undefined where the provider gave no way to. Kept nowhere. */
  management: ClientManagement | undefined;
}

export interface ClientManagement {
  /** `registration_client_uri`. */
  url: string;
  /** `registration_access_token`. */
  token: string;
}

export type RegistrationOutcome = { client: GivenClient; fault?: never } | { client?: never; fault: string };

const LIMITS: CallLimits = { deadlineMilliseconds: 10_000, maxBytes: 256 * 1024 };

/** The last that a Date can hold. */
const LAST_SECOND = 8_640_000_000_000;

const givenClient = z.object({
  client_id: z.string().min(1).max(500),
  client_secret: z.string().min(1).max(2000).optional(),
  // In seconds, 0 where it lasts. One that says it otherwise is not refused for that.
  client_secret_expires_at: z.int().min(0).max(LAST_SECOND).optional().catch(undefined),
  token_endpoint_auth_method: z.enum(TOKEN_ENDPOINT_AUTH_METHODS).optional(),
});

const clientManagement = z.object({
  registration_client_uri: z.url().max(2000),
  registration_access_token: z
    .string()
    .max(5000)
    .regex(/^[A-Za-z0-9\-._~+/]+=*$/),
});

/**
 * Registers once, and takes back what cannot be used; never throws for what the provider does.
 * @param endpoint the provider's `registration_endpoint`
 * @param initialAccessToken what some providers ask for before anybody may register; kept nowhere
 */
export async function registerAtProvider(
  { outbound }: { outbound: Pick<Outbound, 'fetch'> },
  endpoint: string,
  wanted: WantedClient,
  initialAccessToken: string | undefined,
): Promise<RegistrationOutcome> {
  const headers = {
    accept: 'application/json',
    'content-type': 'application/json',
    ...(initialAccessToken ? { authorization: `Bearer ${initialAccessToken}` } : {}),
  };
  try {
    const init = { method: 'POST', headers, body: JSON.stringify(clientMetadata(wanted)) };
    const answer = await outbound.fetch(endpoint, init, LIMITS);
    const body: unknown = await answer.json().catch(() => undefined);
    const management = managementIn(body, endpoint);
    const outcome = judge(answer.status, body, wanted, management);
    if (outcome.fault !== undefined && answer.ok && management) await withdrawAtProvider({ outbound }, management);
    return outcome;
  } catch (error) {
    const { reason } = ProviderError.from(error);
    if (reason === 'address') return { fault: ENDPOINT_REFUSED };
    return { fault: `The provider could not be asked: ${reason.replaceAll('_', ' ')}.` };
  }
}

function clientMetadata(wanted: WantedClient): Record<string, unknown> {
  return {
    client_name: wanted.name,
    redirect_uris: wanted.callbackUrls,
    post_logout_redirect_uris: [wanted.postLogoutUrl],
    backchannel_logout_uri: wanted.backchannelLogoutUrl,
    backchannel_logout_session_required: true,
    response_types: ['code'],
    grant_types: ['authorization_code', 'refresh_token'],
    token_endpoint_auth_method: wanted.tokenEndpointAuthMethod,
    scope: wanted.scopes.join(' '),
    ...(wanted.tokenEndpointAuthMethod === 'private_key_jwt' ? { jwks_uri: wanted.jwksUrl } : {}),
  };
}

/**
 * Takes a registration back (RFC 7592 section 2.3); never throws for what the provider does.
 * @returns whether the provider confirmed it
 */
export async function withdrawAtProvider(
  { outbound }: { outbound: Pick<Outbound, 'fetch'> },
  { url, token }: ClientManagement,
): Promise<boolean> {
  try {
    const headers = { accept: 'application/json', authorization: `Bearer ${token}` };
    return (await outbound.fetch(url, { method: 'DELETE', headers }, LIMITS)).ok;
  } catch {
    return false;
  }
}

function judge(
  status: number,
  body: unknown,
  wanted: WantedClient,
  management: ClientManagement | undefined,
): RegistrationOutcome {
  if (status === 401 || status === 403) {
    return { fault: 'The provider lets nobody register without an initial access token, or does not accept this one.' };
  }
  if (status !== 200 && status !== 201) return { fault: refusal(status, body) };
  const given = givenClient.safeParse(body);
  if (!given.success) return { fault: 'The provider answered with something that is no registration.' };
  const { client_id: clientId, client_secret: clientSecret, token_endpoint_auth_method: method } = given.data;
  const { client_secret_expires_at: expires } = given.data;
  const tokenEndpointAuthMethod = method ?? wanted.tokenEndpointAuthMethod;
  if (tokenEndpointAuthMethod.startsWith('client_secret_') && clientSecret === undefined) {
    return { fault: 'The provider registered the app but gave no client secret: register it there by hand.' };
  }
  const clientSecretExpiresAt = expires ? expires * 1000 : undefined;
  return { client: { clientId, clientSecret, clientSecretExpiresAt, tokenEndpointAuthMethod, management } };
}

/** A provider that points outside of itself would have us send what it likes to somebody else (R79). */
function managementIn(body: unknown, endpoint: string): ClientManagement | undefined {
  const { data } = clientManagement.safeParse(body);
  if (data === undefined || new URL(data.registration_client_uri).origin !== new URL(endpoint).origin) return undefined;
  return { url: data.registration_client_uri, token: data.registration_access_token };
}

const ENDPOINT_REFUSED =
  'The provider names an address for registration that must not be called: register the app there by hand.';

/** The error codes of RFC 7591 section 3.2.2; what else the provider wrote is not repeated. */
const REFUSALS: Readonly<Record<string, string>> = {
  invalid_redirect_uri: 'The provider does not accept the callback URLs.',
  invalid_client_metadata:
    'The provider does not accept a part of it, such as the scopes or the authentication method.',
  invalid_software_statement: 'The provider asks for a software statement: register the app there by hand.',
  unapproved_software_statement: 'The provider asks for a software statement: register the app there by hand.',
};

function refusal(status: number, body: unknown): string {
  const code = typeof body === 'object' && body !== null && 'error' in body ? String(body.error) : '';
  return REFUSALS[code] ?? `The provider refused to register the app (status ${status}).`;
}
