/** Reads the API key: Bearer, Basic with the key as user name, or the query parameter `apiKey`. */
import type { IncomingMessage } from 'node:http';

/** The credentials of a request. `none`: a free request. `several`: RFC 6750 section 2 forbids more than one. */
export type Credentials = { kind: 'none' | 'several' | 'unreadable' } | { kind: 'key'; key: string };

const NONE: Credentials = { kind: 'none' };
const UNREADABLE: Credentials = { kind: 'unreadable' };

/** @param query without the question mark; may be '' */
export function readCredentials({ headers, headersDistinct }: IncomingMessage, query: string): Credentials {
  const { authorization } = headers;
  const inQuery = query === '' ? [] : new URLSearchParams(query).getAll('apiKey');
  if (authorization === undefined && inQuery.length === 0) return NONE;
  // `headers` has only the first of several Authorization headers.
  const count = (authorization === undefined ? 0 : (headersDistinct.authorization?.length ?? 1)) + inQuery.length;
  if (count > 1) return { kind: 'several' };
  return authorization === undefined ? asKey(inQuery[0]) : readAuthorization(authorization);
}

function readAuthorization(header: string): Credentials {
  const [, scheme = '', value = ''] = /^(bearer|basic) +([A-Za-z0-9._~+/=-]{1,500}) *$/i.exec(header) ?? [];
  if (scheme.toLowerCase() === 'bearer') return asKey(value);
  if (scheme.toLowerCase() !== 'basic') return UNREADABLE;
  // RFC 7617 section 2: the user name ends at the first colon. The password is ignored.
  const [user] = Buffer.from(value, 'base64').toString('latin1').split(':');
  return asKey(user);
}

function asKey(key: string | undefined): Credentials {
  return key ? { kind: 'key', key } : UNREADABLE;
}
