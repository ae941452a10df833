/** Generates hostile requests: headers, cookies, bodies, and bytes that are not HTTP. */
import fc from 'fast-check';
import { hostileText, NAMES, pair, query, target, wellFormed } from './fuzz-targets.ts';

/** Credentials with which requests pass authentication. */
export interface Credentials {
  host: string;
  cookie: string;
  csrfToken: string;
  relayToken: string;
  adminToken: string;
}

export interface HostileRequest {
  bytes: Buffer;
  /** Whether it is a complete request, which must get a response. */
  isWhole: boolean;
}

type Line = readonly [name: string, value: string];
type Body = readonly [type: string, content: string];

/** A client that is still sending when it is refused may miss the response. */
const MAX_UNREAD = 16_000;
const HEADERS =
  `accept accept-encoding accept-language authorization cookie content-type content-encoding expect origin referer
  sec-fetch-site sec-fetch-mode sec-fetch-dest x-csrf-token x-request-id traceparent tracestate baggage x-forwarded-for
  x-forwarded-host x-forwarded-proto forwarded x-http-method-override range if-none-match if-modified-since gatehouse-user
  gatehouse-user-assertion gatehouse-service-account connection upgrade te transfer-encoding content-length host dpop
  proxy-authorization user-agent`.split(/\s+/);
const SCHEMES = ['Bearer', 'Basic', 'bearer', 'DPoP', 'Digest', ''];
const TYPES = ['application/json', 'text/plain', 'multipart/form-data', 'application/json; charset=utf-7', 'nonsense'];

const hostileHeader: fc.Arbitrary<Line> = fc.tuple(
  fc.oneof({ weight: 8, arbitrary: fc.constantFrom(...HEADERS) }, hostileText),
  hostileText,
);
const none = fc.constant<Line[]>([]);
const headerLine = (name: string, value: string): Line[] => [[name, value]];

const accepts = fc.constantFrom('text/html', 'application/json', '*/*').map((type) => headerLine('accept', type));
/** Has this text as the session and as a secret of the browser. @param cookie with a valid session */
const forgedCookies = (cookie: string, text: string) => {
  const [name = ''] = cookie.split('=');
  return `${name}=${text}; ${name.replace('gatehouse', 'gatehouse-tx-abcdef')}=${text}`;
};
const cookies = ({ cookie }: Credentials): fc.Arbitrary<Line[]> =>
  fc.oneof(
    { weight: 8, arbitrary: fc.constant(headerLine('cookie', cookie)) },
    { weight: 1, arbitrary: none },
    { weight: 1, arbitrary: hostileText.map((text) => headerLine('cookie', forgedCookies(cookie, text))) },
    {
      weight: 1,
      arbitrary: hostileText.map((text) => [...headerLine('cookie', cookie + text), ...headerLine('cookie', cookie)]),
    },
  );
const authorization = ({ relayToken, adminToken }: Credentials): fc.Arbitrary<Line[]> =>
  fc.oneof(
    { weight: 6, arbitrary: none },
    {
      weight: 3,
      arbitrary: fc.constantFrom(relayToken, adminToken).map((token) => headerLine('authorization', `Bearer ${token}`)),
    },
    {
      weight: 1,
      arbitrary: fc
        .tuple(fc.constantFrom(...SCHEMES), hostileText)
        .map(([scheme, text]) => headerLine('authorization', `${scheme} ${text}`)),
    },
  );

const json = fc.oneof(
  fc.json({ maxDepth: 4 }),
  fc.dictionary(fc.constantFrom(...NAMES), fc.jsonValue({ maxDepth: 2 })).map((value) => JSON.stringify(value)),
);
const form = ({ csrfToken }: Credentials) =>
  fc.tuple(fc.array(pair, { maxLength: 6 }), fc.boolean()).map(([pairs, hasToken]) => {
    const parameters = new URLSearchParams(wellFormed(pairs));
    if (hasToken) parameters.append('_csrf', csrfToken);
    return parameters.toString();
  });
const body = (credentials: Credentials): fc.Arbitrary<Body> =>
  fc.oneof(
    { weight: 6, arbitrary: fc.constant<Body>(['', '']) },
    { weight: 6, arbitrary: json.map((text): Body => ['application/json', text]) },
    { weight: 6, arbitrary: form(credentials).map((text): Body => ['application/x-www-form-urlencoded', text]) },
    { weight: 2, arbitrary: fc.tuple(fc.constantFrom(...TYPES), hostileText) },
    { weight: 1, arbitrary: fc.constant<Body>(['application/json', '['.repeat(50_000)]) },
  );

/** Replaces the session in a request by the current one, which has the same length. */
export function withCurrentSession(
  { bytes, isWhole }: HostileRequest,
  old: Credentials,
  current: Credentials,
): HostileRequest {
  const text = bytes.toString('latin1');
  const withSession = text.replaceAll(old.cookie, current.cookie).replaceAll(old.csrfToken, current.csrfToken);
  return { bytes: Buffer.from(withSession, 'latin1'), isWhole };
}

/** Complete requests on any route, with arbitrary content. Some of them are valid. */
export const wholeRequest = (credentials: Credentials): fc.Arbitrary<HostileRequest> =>
  fc
    .record({
      target,
      query,
      body: body(credentials),
      lines: fc.tuple(accepts, cookies(credentials), authorization(credentials)).map((groups) => groups.flat()),
      hasCsrf: fc.boolean(),
      extra: fc.oneof(
        { weight: 2, arbitrary: none },
        { weight: 1, arbitrary: fc.array(hostileHeader, { maxLength: 4 }) },
      ),
    })
    .map(({ target: { method, path }, query: search, body: [type, content], lines: baseLines, hasCsrf, extra }) => {
      const length = String(Buffer.byteLength(content));
      const lines: Line[] = [
        ...headerLine('host', credentials.host),
        ...headerLine('connection', 'close'),
        ...baseLines,
        ...(hasCsrf ? headerLine('x-csrf-token', credentials.csrfToken) : []),
        ...(type === '' ? [] : [...headerLine('content-type', type), ...headerLine('content-length', length)]),
        ...extra,
      ];
      const head = [`${method} ${path}${search} HTTP/1.1`, ...lines.map(([name, value]) => `${name}: ${value}`)];
      // After an additional header or a line break, the framing may be different, and the server may wait for more.
      const isFramed = extra.length === 0 && !/[\r\n]/.test(head.join(''));
      const isWhole = isFramed && content.length < MAX_UNREAD;
      return { bytes: Buffer.from(`${head.join('\r\n')}\r\n\r\n${content}`), isWhole };
    });

/** Bytes that are not HTTP, and requests that are changed, truncated or sent twice. */
export const rawBytes = (credentials: Credentials): fc.Arbitrary<HostileRequest> => {
  const whole = wholeRequest(credentials).map(({ bytes }) => bytes);
  const changes = fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 8 });
  return fc
    .oneof(
      fc.uint8Array({ minLength: 1, maxLength: 2_000 }).map((bytes) => Buffer.from(bytes)),
      fc.tuple(whole, changes).map(([bytes, replacements]) => {
        const changed = Buffer.from(bytes);
        for (const [position, octet] of replacements) changed[position % changed.length] = octet;
        return changed;
      }),
      fc.tuple(whole, fc.nat()).map(([bytes, end]) => bytes.subarray(0, 1 + (end % bytes.length))),
      fc.tuple(whole, whole).map((requests) => Buffer.concat(requests)),
    )
    .map((bytes) => ({ bytes, isWhole: false }));
};
