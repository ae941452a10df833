/** The id of a user's account at a provider that does not name it in an ID token: a member of a response of its API. */
import * as client from 'openid-client';
import { parseJson } from '../json.ts';
import { limitOf, ProviderError } from './provider-error.ts';
import { callError } from './provider-failures.ts';
import { dpopOptions, type ProviderConnection } from './token-request.ts';
import type { TokenResponse } from './token-response.ts';

const MAX_CHARACTERS = 255;

/** GETs the URL of the app's `account` with the access token. @throws ProviderError without an id */
export async function readAccountId(
  { app: { account }, server, configuration }: ProviderConnection,
  { accessToken, dpopKey }: Pick<TokenResponse, 'accessToken' | 'dpopKey'>,
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
      throw challenge ? unreadable('invalid', challenge.status) : callError(error, 'account_unreadable');
    });
  const { status } = response;
  if (status === 429 || status >= 500) throw unreadable('unavailable', status);
  const id = status === 200 ? idAt(parseJson(await response.text()), account.field) : undefined;
  if (id === undefined) throw unreadable('invalid', status);
  return id;
}

function unreadable(failure: 'unavailable' | 'invalid', status: number): ProviderError {
  return new ProviderError(failure, 'account_unreadable', { status, ...limitOf({ status }) });
}

/** @param path names of members with dots between them */
function idAt(body: unknown, path: string): string | undefined {
  const value = path
    .split('.')
    .reduce<unknown>((at, name) => (isContainer(at) && Object.hasOwn(at, name) ? at[name] : undefined), body);
  // A greater number is rounded: two accounts could have the same one.
  const id = Number.isSafeInteger(value) ? String(value) : value;
  return typeof id === 'string' && id.trim() !== '' && id.length <= MAX_CHARACTERS ? id : undefined;
}

function isContainer(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
