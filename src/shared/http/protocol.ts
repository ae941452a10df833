/** Refuses upgrades, tunnels and bytes that are not HTTP (R77, R78). */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { RequestHandler } from 'express';
import { AppError, type ProblemCode } from '../errors.ts';
import type { Refuse, RefusedRequest } from './refusal.ts';

/** Some clients offer HTTP/2 without TLS (RFC 9113 section 3.1) and continue in HTTP/1.1 if the offer is ignored. */
const IGNORED_UPGRADE = /^h2c?$/i;

/**
 * Headers of the user's connection (RFC 9110 section 7.6.1), and of the page that made the request (Fetch Metadata):
 * who may load a page of the service is the service's own rule. `Sec-Fetch-Mode` stays, since it tells a script.
 */
const ABOUT_USERS_REQUEST = ['upgrade', 'transfer-encoding', 'sec-fetch-site', 'sec-fetch-dest'];

/**
 * Drops what the route of a reverse proxy must not take from the user's request. The proxy may not send the body that
 * the user's request announces, and the next request would be taken for it, so the connection closes.
 */
export function dropUsersHeaders(isForProxies: (path: string) => boolean): RequestHandler {
  return (req, res, next) => {
    if (!isForProxies(req.path)) return next();
    const { 'transfer-encoding': encoding, 'content-length': length = '0' } = req.headers;
    if (encoding !== undefined || length !== '0') res.set('Connection', 'close');
    for (const name of ABOUT_USERS_REQUEST) delete req.headers[name];
    return next();
  };
}

/** Refuses WebSockets, other upgrades, and a request with several Host headers (RFC 9112 section 3.2). */
export const plainHttp: RequestHandler = (req, _res, next) => {
  const { upgrade } = req.headers;
  if (upgrade !== undefined && !IGNORED_UPGRADE.test(upgrade))
    return next(refusal('Use plain HTTP: upgrades are not supported.'));
  if ((req.headersDistinct.host?.length ?? 0) > 1) return next(refusal('Send one Host header.'));
  return next();
};

function refusal(detail: string): AppError {
  return new AppError('invalid_request', { detail, headers: { Connection: 'close' } });
}

/** Responds to parser errors and CONNECT, for which Node emits no request. The connection ends with the response. */
export function refuseUnreadable(server: Server, refuse: Refuse): void {
  const end = (socket: Duplex, status: string, refused: Omit<RefusedRequest, 'status'>, extraLines: string[] = []) => {
    const { headers, body } = refuse({ ...refused, status: Number(status.slice(0, 3)) });
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
    socket.end([`HTTP/1.1 ${status}`, ...extraLines, ...lines, '', body].join('\r\n'));
  };
  server.on('clientError', (error: NodeJS.ErrnoException & { rawPacket?: Buffer }, socket: Duplex) => {
    // No response is possible to a disconnected peer, or in the middle of another response.
    const response = openResponse(socket);
    if (error.code === 'ECONNRESET' || !socket.writable || response?.headersSent) return socket.destroy();
    const [code, status] = PARSER_REFUSALS[error.code ?? ''] ?? (['invalid_request', '400 Bad Request'] as const);
    if (!response) return end(socket, status, { code, ...headersIn(error.rawPacket) });
    const { method, headers } = response.req;
    return end(socket, status, { code, method, accept: headers.accept, cookie: headers.cookie });
  });
  server.on('connect', (_req, socket: Duplex) => {
    const refused = { code: 'method_not_allowed', method: 'CONNECT' } as const;
    end(socket, '405 Method Not Allowed', refused, ['Allow: GET, HEAD, POST']);
  });
}

const PARSER_REFUSALS: Readonly<Record<string, readonly [ProblemCode, string]>> = {
  HPE_HEADER_OVERFLOW: ['too_large', '431 Request Header Fields Too Large'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: ['too_large', '413 Content Too Large'],
  ERR_HTTP_REQUEST_TIMEOUT: ['invalid_request', '408 Request Timeout'],
};

/**
 * @param packet the bytes that arrived last. Node does not tell what came before them: if the head began earlier, it is
 * taken for that of a browser if it continues with cookies, or with the mark of a navigation (Fetch Metadata)
 */
function headersIn(packet: Buffer | undefined): Pick<RefusedRequest, 'accept' | 'cookie'> {
  const received = packet?.toString('latin1') ?? '';
  const accept = headerIn(received, 'accept');
  const cookie = headerIn(received, 'cookie');
  if (accept !== undefined || REQUEST_LINE.test(received)) return { accept, cookie };
  const cookies = cookie ?? CONTINUED_COOKIES.exec(received)?.[1];
  const mode = headerIn(received, 'sec-fetch-mode') ?? (cookies === undefined ? undefined : 'navigate');
  return { accept: mode === 'navigate' ? 'text/html' : undefined, cookie: cookies };
}

const REQUEST_LINE = /^[A-Z]+ \S+ HTTP\//;
/** The first line continues a `Cookie` header: what follows its first separator are whole cookies. */
const CONTINUED_COOKIES = /^[^\r\n]*?; ([^\r\n=; ]+=[^\r\n]*)/;

function headerIn(head: string, name: string): string | undefined {
  return new RegExp(`^${name}:[ \\t]*([^\\r\\n]*)`, 'im').exec(head)?.[1];
}

/** Returns the unfinished response of the connection. Node's own handler for `clientError` reads it from there, too. */
function openResponse(socket: Duplex): ServerResponse<IncomingMessage> | null | undefined {
  return (socket as { _httpMessage?: ServerResponse<IncomingMessage> | null })._httpMessage;
}
