/** The problem document (RFC 9457), and a complete response for requests refused before Express sees them. */
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { faultSchema } from '../config/input-faults.ts';
import { PROBLEMS, type ProblemCode } from '../errors.ts';
import { securityHeaders } from './security-headers.ts';

export const PROBLEM_TYPE = 'application/problem+json';

/** R68 requires the last three directives on refusals, too. DATA_POLICY lacks two of them because of `sandbox`. */
const REFUSAL_POLICY = "default-src 'none'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'";

export const problemSchema = z.object({
  type: z.url(),
  title: z.string(),
  status: z.int(),
  detail: z.string().optional(),
  instance: z.string().optional().describe('identifies the request: the `X-Request-Id` as a URN, if it is a UUID'),
  code: z.enum(Object.keys(PROBLEMS) as ProblemCode[]),
  connectUrl: z
    .string()
    .optional()
    .describe(
      'where the user can resolve the problem: by connecting, reconnecting (also for an unverified connection, 503) or signing in',
    ),
  errors: z.array(faultSchema).readonly().optional(),
});

/**
 * Returns the request id as a URN (RFC 9562 section 4), or undefined if it is not a UUID. A proxy may send it without
 * dashes.
 */
export function instanceOf(id: string): string | undefined {
  const [, ...groups] = UUID.exec(id) ?? [];
  return groups.length > 0 ? `urn:uuid:${groups.join('-')}` : undefined;
}

const UUID = /^([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})$/i;

/**
 * Returns the document as JSON. Undefined members are left out.
 * @param problem `id`: id of the request, which becomes `instance`
 */
export function problemDocument(
  publicHref: string,
  problem: Pick<z.output<typeof problemSchema>, 'code' | 'status' | 'detail' | 'connectUrl' | 'errors'> & {
    id: string;
  },
): string {
  const { code, status, id, detail, connectUrl, errors } = problem;
  return JSON.stringify({
    type: `${publicHref}/problems/${code}`,
    title: PROBLEMS[code].title,
    status,
    detail,
    instance: instanceOf(id),
    code,
    connectUrl,
    errors,
  } satisfies z.output<typeof problemSchema>);
}

/**
 * Called for a request that is refused before it reaches the app.
 * @param refusal `id`: the `X-Request-Id` of the response. `method`: undefined if it could not be read
 */
export type OnRefused = (
  code: ProblemCode,
  refusal: { id: string; status: number; method?: string | undefined },
) => void;

/** Creates a refusal that closes the connection, because the rest of the stream may be unparseable. */
export function bareProblem(
  publicHref: string,
  code: ProblemCode,
  status: number,
): { id: string; headers: Record<string, string>; body: string } {
  const id = randomUUID();
  const body = problemDocument(publicHref, { code, status, id });
  const headers = {
    ...Object.fromEntries(securityHeaders(publicHref)),
    Connection: 'close',
    'Content-Type': `${PROBLEM_TYPE}; charset=utf-8`,
    'Content-Length': String(Buffer.byteLength(body)),
    'Content-Security-Policy': REFUSAL_POLICY,
    'X-Request-Id': id,
  };
  return { id, headers, body };
}
