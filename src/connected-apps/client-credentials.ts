/** Owns how a client id and its secret are written into an `Authorization` header (RFC 6749 section 2.3.1). Pure. */

export function basicCredentials(clientId: string, secret: string): string {
  return `Basic ${Buffer.from(`${formEncode(clientId)}:${formEncode(secret)}`).toString('base64')}`;
}

/**
 * application/x-www-form-urlencoded, but `- _ . ~` stay as they are. openid-client's own method escapes those,
 * and providers that do not decode the credentials then refuse a client id with a hyphen.
 */
function formEncode(text: string): string {
  return new URLSearchParams([['', text]]).toString().slice(1).replaceAll('%7E', '~');
}
