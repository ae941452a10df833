/** The broken responses that any endpoint of the hostile provider can give in place of its own. */
import type { ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';

export interface BrokenResponseContext {
  /** A listener that redirects point to, and that must never receive a request. */
  trapUrl: string;
  /** The body of the normal response. */
  body: string;
}

export type BrokenResponse = (res: ServerResponse, context: BrokenResponseContext) => void;

export const HUGE_BYTES = 200 * 1024 * 1024;

export function status(code: number, body: unknown = '', headers: Record<string, string> = {}): BrokenResponse {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const type = typeof body === 'string' ? 'text/plain' : 'application/json';
  return (res) => void res.writeHead(code, { 'content-type': type, ...headers }).end(text);
}

function redirect(code: number): BrokenResponse {
  return (res, { trapUrl }) => void res.writeHead(code, { location: `${trapUrl}/redirected` }).end();
}

/** Spaces before a valid body, far more than any limit allows, so the reader must stop. */
const huge: BrokenResponse = (res) => {
  const chunk = Buffer.alloc(1024 * 1024, ' ');
  let sent = 0;
  const sendMore = () => {
    while (sent < HUGE_BYTES && !res.destroyed) {
      sent += chunk.length;
      if (!res.write(chunk)) return void res.once('drain', sendMore);
    }
    if (!res.destroyed) res.end('{}');
  };
  res.writeHead(200, { 'content-type': 'application/json' });
  sendMore();
};

/** Sends one byte at a time, so the connection never appears idle. */
const drip: BrokenResponse = (res) => {
  res.writeHead(200, { 'content-type': 'application/json' });
  const timer = setInterval(() => res.write(' '), 50);
  res.once('close', () => clearInterval(timer));
};

const json = { 'content-type': 'application/json' };

/** The normal response as a form. */
function form(contentType: string): BrokenResponse {
  return (res, { body }) => {
    const members = Object.entries(JSON.parse(body || '{}')).map(([name, value]) => [name, String(value)]);
    res.writeHead(200, { 'content-type': contentType }).end(new URLSearchParams(members).toString());
  };
}

export const BROKEN_RESPONSES = {
  huge,
  drip,
  /** Accepts the request and never responds. */
  hang: () => undefined,
  reset: (res) => void res.socket?.resetAndDestroy(),
  'reset-after-headers': (res) => {
    res.writeHead(200, { ...json, 'content-length': '5000' }).write('{');
    setTimeout(() => res.socket?.resetAndDestroy(), 20);
  },
  truncated: (res, { body }) => void res.writeHead(200, json).end(body.slice(0, -10)),
  'wrong-type': (res, { body }) => void res.writeHead(200, { 'content-type': 'text/plain' }).end(body),
  form: form('application/x-www-form-urlencoded; charset=utf-8'),
  'form-as-text': form('text/plain'),
  created: (res, { body }) => void res.writeHead(201, json).end(body),
  html: (res) => void res.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Maintenance</h1>'),
  array: (res) => void res.writeHead(200, json).end('[]'),
  null: (res) => void res.writeHead(200, json).end('null'),
  empty: (res) => void res.writeHead(200, json).end(),
  gzip: (res, { body }) => void res.writeHead(200, { ...json, 'content-encoding': 'gzip' }).end(gzipSync(body)),
  'gzip-cut-off': (res, { body }) =>
    void res.writeHead(200, { ...json, 'content-encoding': 'gzip' }).end(gzipSync(body).subarray(0, -9)),
  'unknown-encoding': (res, { body }) => void res.writeHead(200, { ...json, 'content-encoding': 'compress' }).end(body),
  redirect: redirect(302),
  'redirect-307': redirect(307),
  'redirect-301': redirect(301),
  'status-400': status(400),
  'status-401': status(401, { error: 'invalid_request' }),
  'status-404': status(404, '<h1>Not found</h1>', { 'content-type': 'text/html' }),
  'status-429': status(429, { error: 'slow_down' }, { 'retry-after': '7' }),
  'status-500': status(500, '<h1>Oh no</h1>', { 'content-type': 'text/html' }),
  'status-503': status(503, { error: 'temporarily_unavailable' }, { 'retry-after': '9' }),
  'invalid-client': status(401, { error: 'invalid_client' }),
  'invalid-grant': status(400, { error: 'invalid_grant' }),
  /** GitHub and Slack refuse like this. */
  'refused-with-200': status(200, { ok: false, error: 'bad_verification_code' }),
  'wrong-secret-with-200': status(200, { error: 'incorrect_client_credentials' }),
  'many-headers': (res) => {
    for (let n = 0; n < 1000; n += 1) res.setHeader(`x-filler-${n}`, 'x'.repeat(60));
    res.writeHead(200, json).end('{}');
  },
} as const satisfies Record<string, BrokenResponse>;

export type BrokenResponseName = keyof typeof BROKEN_RESPONSES;
