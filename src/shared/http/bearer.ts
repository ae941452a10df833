/** The credentials of the Authorization header (RFC 9110 section 11.6.2, RFC 6750 section 2.1). */
import type { IncomingMessage } from 'node:http';

const MAX_CHARACTERS = 200;

/** @returns `isSent`: whether the header is present. `token`: undefined unless it is one well-formed Bearer token. */
export function bearerOf(req: IncomingMessage): { isSent: boolean; token: string | undefined } {
  const headers = req.headersDistinct.authorization ?? [];
  const [header = ''] = headers;
  const token = headers.length === 1 ? /^Bearer +([!-~]+)$/i.exec(header)?.[1] : undefined;
  return {
    isSent: headers.length > 0,
    token: token !== undefined && token.length <= MAX_CHARACTERS ? token : undefined,
  };
}
