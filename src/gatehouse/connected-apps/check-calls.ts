/** The doctor's calls to the endpoints of the provider and to the platform, with made-up codes and tokens. */
import { unencodedCredentials } from '../../shared/provider/basic-credentials.ts';
import { type ConnectedApp, TOKEN_ENDPOINT_AUTH_METHODS } from '../../shared/provider/connected-app.ts';
import { firstIssuer } from '../../shared/provider/issuer.ts';
import { describeFailure, failedCall, ProviderError } from '../../shared/provider/provider-error.ts';
import type { ProviderMetadata } from '../../shared/provider/provider-metadata.ts';
import { fetchDocument } from '../../shared/provider/provider-read.ts';
import { describeReply } from '../../shared/provider/provider-reply.ts';
import { responseMembers } from '../../shared/provider/token-members.ts';
import { authorizationRequest, type CallParts, randomText } from './check-authorization.ts';
import { type Finding, failed, passed, unknown } from './finding.ts';

/** Sends a made-up code: the token endpoint authenticates the client before it responds with `invalid_grant`. */
export async function checkClientAuthentication(
  parts: CallParts,
  app: ConnectedApp,
  metadata: ProviderMetadata,
): Promise<Finding> {
  const { result, words } = await tryCode(parts, app);
  if (result === 'accepted') {
    return app.tokenEndpointAuthMethod === 'none'
      ? passed('client_authentication', 'The token endpoint knows the client ID; no secret is used.')
      : passed(
          'client_authentication',
          `The token endpoint accepts the client ID and secret by ${app.tokenEndpointAuthMethod}.`,
        );
  }
  const unclear = unknown('client_authentication', `The token endpoint gave no clear response: ${words}.`);
  if (result === 'unclear') return unclear;
  const detail = `The token endpoint does not accept the client ID with this secret (${words}).`;
  const acceptedMethod = await findOtherMethod(parts, app);
  if (acceptedMethod) {
    return failed('client_authentication', detail, {
      advice: `The endpoint accepts ${acceptedMethod}: set tokenEndpointAuthMethod to that.`,
      pointer: '#/tokenEndpointAuthMethod',
    });
  }
  if (await acceptsUnencoded(parts, app, metadata)) {
    return failed('client_authentication', detail, {
      advice:
        'The endpoint accepts client ID and secret in the Basic header only as they are, without the encoding of RFC 6749, section 2.3.1. Replace the secret there by one of only letters, digits, "-", "." and "_", for which both are the same, or ask the operator of the provider to decode it.',
      pointer: '#/clientSecret',
    });
  }
  // Without another form that it accepts, nothing shows that the credentials are the cause.
  if (result === 'other_refusal') return unclear;
  return failed('client_authentication', detail, {
    advice: 'Compare the client ID, enter the secret again, and check whether it has expired at the provider.',
    pointer: '#/clientSecret',
  });
}

/** `words`: the response, for an administrator. `other_refusal`: some providers refuse wrong credentials like this. */
interface CodeAttempt {
  result: 'accepted' | 'client_refused' | 'other_refusal' | 'unclear';
  words: string;
}

async function tryCode({ provider, publicHref }: CallParts, app: ConnectedApp): Promise<CodeAttempt> {
  const request = authorizationRequest(app, publicHref);
  const callback = new URL(request.redirectUri);
  const iss = firstIssuer(app);
  callback.search = new URLSearchParams({ code: randomText(), state: request.state, iss }).toString();
  try {
    await provider.exchangeCode(app, callback, request);
    return { result: 'unclear', words: 'it accepted a made-up code' };
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    const { status, oauthError } = error.facts;
    const words = describeReply({ status, error: oauthError });
    if (error.reason === 'client_refused' || status === 401) return { result: 'client_refused', words };
    if (error.reason === 'code_refused' && oauthError === 'invalid_grant') return { result: 'accepted', words };
    const isRefusal = error.failure === 'refused' && status !== undefined && status >= 400;
    return { result: isRefusal ? 'other_refusal' : 'unclear', words: describeFailure(error) };
  }
}

const LIMITS = { deadlineMilliseconds: 15_000, maxBytes: 512 * 1024 };

/** Tries the credentials in the Basic header without encoding. The secret goes to the token endpoint only. */
async function acceptsUnencoded(
  { outbound, publicHref }: CallParts,
  app: ConnectedApp,
  { token_endpoint: url }: ProviderMetadata,
): Promise<boolean> {
  const authorization = unencodedCredentials(app);
  if (authorization === undefined || url === undefined) return false;
  const { redirectUri, codeVerifier } = authorizationRequest(app, publicHref);
  const body = new URLSearchParams({
    ...app.tokenParameters,
    grant_type: 'authorization_code',
    code: randomText(),
    redirect_uri: redirectUri,
    code_verifier: codeVerifier,
  }).toString();
  const headers = { authorization, accept: 'application/json', 'content-type': 'application/x-www-form-urlencoded' };
  try {
    const response = await outbound.fetch(url, { app: app.id, method: 'POST', headers, body }, LIMITS);
    const members = responseMembers(await response.text(), response.headers.get('content-type'));
    return response.status >= 400 && members?.error === 'invalid_grant';
  } catch {
    return false;
  }
}

async function findOtherMethod(parts: CallParts, app: ConnectedApp): Promise<string | undefined> {
  if (!app.clientSecret) return undefined;
  const others = TOKEN_ENDPOINT_AUTH_METHODS.filter(
    (method) => method.startsWith('client_secret_') && method !== app.tokenEndpointAuthMethod,
  );
  for (const tokenEndpointAuthMethod of others) {
    const { result } = await tryCode(parts, { ...app, tokenEndpointAuthMethod });
    if (result === 'accepted') return tokenEndpointAuthMethod;
  }
  return undefined;
}

/** Revokes a made-up token, for which RFC 7009 section 2.2 requires a 200. */
export async function checkRevocation(
  { provider }: CallParts,
  app: ConnectedApp,
  metadata: ProviderMetadata,
): Promise<Finding> {
  if (!metadata.revocation_endpoint) {
    return unknown('revocation', 'No revocation endpoint is known: disconnecting deletes the tokens only here.', {
      advice: 'If the provider has one, set endpoints.revocation.',
      pointer: '#/endpoints/revocation',
    });
  }
  const { outcome, reply } = await provider.revoke(app, randomText(), 'refresh_token');
  if (outcome === 'revoked') return passed('revocation', 'The revocation endpoint works.');
  const { status = 500 } = reply ?? {};
  if (status >= 400 && status < 500) {
    return unknown(
      'revocation',
      `The revocation endpoint refused a made-up token, as some providers do (${describeReply(reply)}).`,
    );
  }
  return failed('revocation', `The revocation endpoint does not work (${describeReply(reply)}).`, {
    advice: 'Until it does, disconnecting deletes the tokens here, and the revocation is retried for 7 days.',
    pointer: '#/endpoints/revocation',
  });
}

/** Calls the thread path without a token: a working platform refuses the call with 401 or 403. */
export async function checkPlatform({ outbound }: CallParts, app: ConnectedApp): Promise<Finding[]> {
  if (app.apiBaseUrl === undefined) return [];
  if (app.apiBaseUrlFrom)
    return [unknown('platform', `Each token response names its host in ${app.apiBaseUrlFrom.member}.`)];
  const url = `${app.apiBaseUrl.replace(/\/$/, '')}${app.threadPath}`;
  try {
    const { status } = await fetchDocument(outbound, url, app.id, { peer: 'platform', statusDecides: true });
    return [platformFinding(status)];
  } catch (error) {
    return [
      failed('platform', `The call to the platform failed: ${describeFailure(error)}.`, {
        advice: failedCall(error)?.advice ?? 'Check the API base URL, and that this server may reach it.',
        pointer: '#/apiBaseUrl',
      }),
    ];
  }
}

function platformFinding(status: number): Finding {
  if (status === 401 || status === 403)
    return passed('platform', `The thread path exists and requires a token (${status}).`);
  if (status === 404) {
    return failed('platform', 'The platform does not have this path (404).', {
      advice: 'Check the API base URL and the thread path.',
      pointer: '#/threadPath',
    });
  }
  return unknown('platform', `Without a token the platform responded with status ${status}.`);
}
