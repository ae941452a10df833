/** Generates responses that no provider or platform should send: changed valid responses, and arbitrary ones. */
import fc from 'fast-check';
import { BROKEN_RESPONSES, type BrokenResponse, type BrokenResponseName } from '../support/broken-responses.ts';

export interface HostileResponse {
  respond: BrokenResponse;
  /** For the message of a failure. */
  description: string;
}

/** Responses that last until a deadline have separate tests. */
const QUICK = (Object.keys(BROKEN_RESPONSES) as BrokenResponseName[]).filter(
  (name) => !['hang', 'drip', 'huge'].includes(name),
);
const STATUSES = [200, 200, 200, 201, 204, 206, 302, 400, 401, 403, 404, 418, 429, 500, 502, 503, 599, 999];
const FIELDS = [
  'access_token',
  'refresh_token',
  'id_token',
  'token_type',
  'expires_in',
  'scope',
  'error',
  'error_description',
  'keys',
  'issuer',
  'token_endpoint',
  'authorization_endpoint',
  'jwks_uri',
  'sub',
  'name',
  'refresh_expires_in',
  '__proto__',
];
const VALUES: unknown[] = [
  null,
  true,
  0,
  -5,
  1e300,
  '',
  'x',
  'é\u0000',
  'a.b.c',
  '..',
  [],
  {},
  [[]],
  'none',
  'Bearer',
  'DPoP',
  '3600',
  2 ** 53,
  'x'.repeat(100_000),
  'javascript:alert(1)',
  'http://127.0.0.1:1/',
  'file:///etc/passwd',
  '{"a":1}',
  { toString: 1 },
];
const value = fc.oneof(fc.constantFrom(...VALUES), fc.jsonValue({ maxDepth: 3 }));
const HEADERS = [
  ['content-type', 'application/json; charset=utf-16'],
  ['content-type', 'text/html'],
  ['content-encoding', 'gzip'],
  ['content-encoding', 'br'],
  ['retry-after', '-1'],
  ['retry-after', '9'.repeat(40)],
  ['retry-after', 'soon'],
  ['www-authenticate', 'DPoP error="use_dpop_nonce"'],
  ['dpop-nonce', 'x'.repeat(5_000)],
  ['location', 'file:///x'],
  ['date', 'never'],
  ['content-length', '3'],
  ['connection', 'close'],
  ['cache-control', 'max-age=1e99'],
] as [string, string][];

function responseOf(status: number, headers: [string, string][], text: string | Buffer): HostileResponse {
  return {
    description: `${status} ${JSON.stringify(headers)} ${String(text).slice(0, 300)}`,
    respond(res) {
      for (const [name, content] of headers) res.setHeader(name, content);
      if (!res.hasHeader('content-type')) res.setHeader('content-type', 'application/json');
      // Node refuses some of them. Then the connection is closed instead.
      try {
        res.writeHead(status).end(text);
      } catch {
        res.destroy();
      }
    },
  };
}

/** The normal response with some changed members. */
function changedResponse(status: number, headers: [string, string][], changes: [string, unknown][]): HostileResponse {
  return {
    description: `${status} ${JSON.stringify(headers)} with ${JSON.stringify(changes).slice(0, 300)}`,
    respond(res, context) {
      const normal = context.body === '' ? {} : (JSON.parse(context.body) as Record<string, unknown>);
      const text = JSON.stringify({ ...normal, ...Object.fromEntries(changes) });
      responseOf(status, headers, text).respond(res, context);
    },
  };
}

const head = [fc.constantFrom(...STATUSES), fc.array(fc.constantFrom(...HEADERS), { maxLength: 2 })] as const;

export const hostileResponse: fc.Arbitrary<HostileResponse> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .tuple(...head, fc.array(fc.tuple(fc.constantFrom(...FIELDS), value), { minLength: 1, maxLength: 4 }))
      .map(([status, headers, changes]) => changedResponse(status, headers, changes)),
  },
  {
    weight: 2,
    arbitrary: fc.tuple(...head, fc.json()).map(([status, headers, text]) => responseOf(status, headers, text)),
  },
  {
    weight: 1,
    arbitrary: fc
      .tuple(...head, fc.uint8Array({ maxLength: 500 }))
      .map(([status, headers, bytes]) => responseOf(status, headers, Buffer.from(bytes))),
  },
  {
    weight: 1,
    arbitrary: fc
      .constantFrom(...QUICK)
      .map((name): HostileResponse => ({ description: name, respond: BROKEN_RESPONSES[name] })),
  },
);
