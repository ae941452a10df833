/** Client ID and secret in the Basic header (RFC 6749 section 2.3.1), and without its encoding. Pure. */
import type { ConnectedApp } from './connected-app.ts';

export function basicCredentials(clientId: string, secret: string): string {
  return basicHeader(formEncode(clientId), formEncode(secret));
}

const basicHeader = (userId: string, password: string) =>
  `Basic ${Buffer.from(`${userId}:${password}`).toString('base64')}`;

/**
 * The header as providers expect it that do not decode the credentials; only the doctor tries it. Undefined if it is
 * the same as the encoded one, or has no single meaning.
 */
export function unencodedCredentials({ clientId, clientSecret }: ConnectedApp): string | undefined {
  if (clientSecret === undefined || clientId.includes(':')) return undefined;
  const header = basicHeader(clientId, clientSecret);
  return header === basicCredentials(clientId, clientSecret) ? undefined : header;
}

/**
 * application/x-www-form-urlencoded, except that `- _ . ~` are not escaped. The method of openid-client escapes them,
 * and providers that do not decode the credentials then refuse a client ID with a hyphen.
 */
function formEncode(text: string): string {
  return new URLSearchParams([['', text]]).toString().slice(1).replaceAll('%7E', '~');
}
