/** Reads the account id from the provider's API, for providers that send no ID token. */
import * as client from 'openid-client';
import { parseJson } from '../json.ts';
import { ProviderError, retryFacts } from './provider-error.ts';
import { callError } from './provider-failures.ts';
import { type ConfiguredApp, dpopOptions } from './token-request.ts';
import type { TokenResponse } from './token-response.ts';

const MAX_CHARACTERS = 255;

/**
 * GETs the URL in the app's `account` setting with the access token.
 * @param now milliseconds since the epoch
 * @throws ProviderError if the response has no id
 */
export async function readAccountId(
  { app: { account }, server, configuration }: ConfiguredApp,
  { accessToken, dpopKey }: Pick<TokenResponse, 'accessToken' | 'dpopKey'>,
  now: number,
): Promise<string | undefined> {
  if (!account) return undefined;
  const url = account.url ?? server.userinfo_endpoint;
  if (url === undefined) throw new ProviderError('invalid', 'account_url_missing');
  const headers = new Headers({ accept: 'application/json' });
  const options = await dpopOptions({ configuration }, dpopKey);
  const response = await client
    .fetchProtectedResource(configuration, accessToken, new URL(url), 'GET', null, headers, options)
    .catch((error: unknown) => {
      const challenge = error instanceof client.WWWAuthenticateChallengeError ? error : undefined;
      throw challenge ? unreadable('invalid', challenge) : callError(error, { defaultReason: 'account_unreadable' });
    });
  const { status } = response;
  if (status === 429 || status >= 500) throw unreadable('unavailable', response, retryFacts(response, now));
  const id = status === 200 ? idAt(parseJson(await response.text()), account.field) : undefined;
  if (id === undefined) throw unreadable('invalid', response);
  return id;
}

function unreadable(failure: 'unavailable' | 'invalid', { status }: Pick<Response, 'status'>, facts = {}) {
  return new ProviderError(failure, 'account_unreadable', { status, ...facts });
}

/** @param path member names joined by dots */
function idAt(body: unknown, path: string): string | undefined {
  const value = path
    .split('.')
    .reduce<unknown>(
      (container, name) => (isContainer(container) && Object.hasOwn(container, name) ? container[name] : undefined),
      body,
    );
  // JSON parsing rounds larger numbers, so two accounts could get the same id.
  const id = Number.isSafeInteger(value) ? String(value) : value;
  return typeof id === 'string' && id.trim() !== '' && id.length <= MAX_CHARACTERS ? id : undefined;
}

function isContainer(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
