/** Owns the refusal of what is no plain HTTP request: upgrades, tunnels, and bytes that cannot be parsed (R77, R78). */
import { randomUUID } from 'node:crypto';
import type { Server } from 'node:http';
import type { Duplex } from 'node:stream';
import type { RequestHandler } from 'express';
import { AppError, PROBLEMS, type ProblemCode } from '../errors.ts';

/** HTTP/2 without TLS is merely offered by some programs (RFC 9113 section 3.1): they go on in HTTP/1.1 when it is ignored. */
const OFFERED = /^h2c?$/i;

/** Nothing here is a WebSocket or a tunnel, and a request is for one host (RFC 9112 section 3.2). */
export const plainHttp: RequestHandler = (req, _res, next) => {
  const { upgrade } = req.headers;
  if (upgrade !== undefined && !OFFERED.test(upgrade))
    return next(refused('Ask in plain HTTP: nothing here is an upgrade.'));
  if ((req.headersDistinct.host?.length ?? 0) > 1) return next(refused('Name one host.'));
  return next();
};

function refused(detail: string): AppError {
  return new AppError('invalid_request', { detail, headers: { Connection: 'close' } });
}

/** Answers what never becomes a request: the parser's refusals, and CONNECT. The connection ends with the answer. */
export function refuseUnreadable(server: Server, publicHref: string): void {
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Duplex) => {
    // A peer that is gone, or one that got part of an answer already, can be told nothing.
    if (error.code === 'ECONNRESET' || !socket.writable || hasAnswered(socket)) return socket.destroy();
    const [code, status] = PARSER_REFUSALS[error.code ?? ''] ?? (['invalid_request', '400 Bad Request'] as const);
    return socket.end(rawProblem(publicHref, code, status));
  });
  server.on('connect', (_req, socket: Duplex) => {
    socket.end(rawProblem(publicHref, 'method_not_allowed', '405 Method Not Allowed', ['Allow: GET, HEAD, POST']));
  });
}

const PARSER_REFUSALS: Readonly<Record<string, readonly [ProblemCode, string]>> = {
  HPE_HEADER_OVERFLOW: ['too_large', '431 Request Header Fields Too Large'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: ['too_large', '413 Content Too Large'],
  ERR_HTTP_REQUEST_TIMEOUT: ['invalid_request', '408 Request Timeout'],
};

/** As Node's own answer to such errors checks it. */
function hasAnswered(socket: Duplex): boolean {
  const { _httpMessage: answer } = socket as { _httpMessage?: { _headerSent?: boolean } };
  return answer?._headerSent === true;
}

function rawProblem(publicHref: string, code: ProblemCode, statusLine: string, headers: string[] = []): string {
  const id = randomUUID();
  const body = JSON.stringify({
    type: `${publicHref}/problems/${code}`,
    title: PROBLEMS[code].title,
    status: Number(statusLine.slice(0, 3)),
    instance: `urn:uuid:${id}`,
    code,
  });
  return [
    `HTTP/1.1 ${statusLine}`,
    ...headers,
    'Connection: close',
    'Content-Type: application/problem+json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Cache-Control: no-store',
    "Content-Security-Policy: default-src 'none'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'",
    'Referrer-Policy: same-origin',
    'X-Content-Type-Options: nosniff',
    `X-Request-Id: ${id}`,
    '',
    body,
  ].join('\r\n');
}
