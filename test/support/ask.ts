/** Sends single requests with full control of method, headers and body: adds, follows and stores nothing. */
import { type Agent, type IncomingHttpHeaders, request as requestInPlain } from 'node:http';
import { request as requestByTls } from 'node:https';

export interface Asked {
  status: number;
  headers: IncomingHttpHeaders;
  /** Names and values by turns. */
  rawHeaders: string[];
  body: string;
}

export interface Question {
  method?: string;
  /** A list is sent as that many header lines. */
  headers?: Record<string, string | string[]>;
  body?: string | Buffer;
  /** Request target, where it is not that of the URL. */
  target?: string;
  /** Whose connections it goes over, in place of one of its own. */
  agent?: Agent;
  /** For `https`: the certificates that are trusted, and the name that the server's has to have. */
  tls?: { ca: string[]; servername: string };
}

export function ask(url: string, question: Question = {}): Promise<Asked> {
  const { method = 'GET', headers = {}, body, target, agent, tls } = question;
  const request = tls ? requestByTls : requestInPlain;
  const { hostname, port, pathname, search } = new URL(url);
  const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) };
  return new Promise((resolve, reject) => {
    const outgoing = request(
      {
        ...{ hostname, port, path: target ?? pathname + search, method },
        headers: { ...length, ...headers },
        agent: agent ?? false,
        ...tls,
      },
      (answer) => {
        const chunks: Buffer[] = [];
        answer.on('data', (chunk: Buffer) => chunks.push(chunk));
        answer.on('error', reject);
        answer.on('end', () =>
          resolve({
            status: answer.statusCode ?? 0,
            headers: answer.headers,
            rawHeaders: answer.rawHeaders,
            body: Buffer.concat(chunks).toString('utf8'),
          }),
        );
      },
    );
    outgoing.on('error', reject);
    outgoing.end(body);
  });
}

export const FORM = { 'content-type': 'application/x-www-form-urlencoded' };
export const JSON_BODY = { 'content-type': 'application/json' };
export const PAGE = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };
export const DATA = { accept: 'application/json' };
