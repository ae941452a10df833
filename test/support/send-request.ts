/** Sends single requests with full control of method, headers and body, without redirects or cookies. */
import { type Agent, type IncomingHttpHeaders, request as requestInPlain } from 'node:http';
import { request as requestByTls } from 'node:https';

export interface ReceivedResponse {
  status: number;
  headers: IncomingHttpHeaders;
  /** Alternating names and values. */
  rawHeaders: string[];
  body: string;
}

export interface RequestDetails {
  method?: string;
  /** Each value of a list is sent as a header line. */
  headers?: Record<string, string | string[]>;
  body?: string | Buffer;
  /** The request target, if it differs from that of the URL. */
  target?: string;
  /** Default: a new connection. */
  agent?: Agent;
  /** For `https`: the trusted certificates, and the host name that the server's certificate must have. */
  tls?: { ca: string[]; servername: string };
}

export function sendRequest(url: string, options: RequestDetails = {}): Promise<ReceivedResponse> {
  const { method = 'GET', headers = {}, body, target, agent, tls } = options;
  const request = tls ? requestByTls : requestInPlain;
  const { hostname, port, pathname, search } = new URL(url);
  const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) };
  return new Promise((resolve, reject) => {
    const outgoing = request(
      {
        hostname,
        port,
        path: target ?? pathname + search,
        method,
        headers: { ...length, ...headers },
        agent: agent ?? false,
        ...tls,
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () =>
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            rawHeaders: response.rawHeaders,
            body: Buffer.concat(chunks).toString('utf8'),
          }),
        );
      },
    );
    outgoing.on('error', reject);
    outgoing.end(body);
  });
}

export const FORM_BODY = { 'content-type': 'application/x-www-form-urlencoded' };
export const JSON_BODY = { 'content-type': 'application/json' };
export const ACCEPT_HTML = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };
export const ACCEPT_JSON = { accept: 'application/json' };
