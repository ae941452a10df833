/** The problem document (RFC 9457), and a complete response for requests refused before Express sees them. */
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { faultSchema } from '../config/input-faults.ts';
import { PROBLEMS, type ProblemCode } from '../errors.ts';
import { securityHeaders } from './security-headers.ts';

export const PROBLEM_TYPE = 'application/problem+json';

/** R68 requires the last three directives on refusals such as 413, too; DATA_POLICY has `sandbox` in place of two of them. */
const REFUSAL_POLICY = "default-src 'none'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'";

export const problemSchema = z.object({
  type: z.url(),
  title: z.string(),
  status: z.int(),
  detail: z.string().optional(),
  instance: z.string().optional().describe('names the request as `X-Request-Id` does, where that is a UUID'),
  code: z.enum(Object.keys(PROBLEMS) as ProblemCode[]),
  connectUrl: z
    .string()
    .optional()
    .describe(
      'where the user can end the problem: by connecting or reconnecting, also while the connection is unverified (503), or by signing in',
    ),
  errors: z.array(faultSchema).readonly().optional(),
});

/** The id of a request as a URN (RFC 9562 section 4). A proxy may send it without dashes, or one that is no UUID. */
export function instanceOf(id: string): string | undefined {
  const [, ...groups] = UUID.exec(id) ?? [];
  return groups.length > 0 ? `urn:uuid:${groups.join('-')}` : undefined;
}

const UUID = /^([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})$/i;

/** @param problem `id`: the request's, which becomes `instance`. Undefined members are left out. */
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

const SECURITY_HEADERS = {
  https: Object.fromEntries(securityHeaders(true)),
  http: Object.fromEntries(securityHeaders(false)),
};

/**
 * Called for a request that is refused before it reaches the app.
 * @param refusal `id`: as in the response. `method`: undefined where it could not be read
 */
export type OnRefused = (
  code: ProblemCode,
  refusal: { id: string; status: number; method?: string | undefined },
) => void;

/** A refusal that closes the connection, because the rest of the stream may not be parseable. */
export function bareProblem(
  publicHref: string,
  code: ProblemCode,
  status: number,
): { id: string; headers: Record<string, string>; body: string } {
  const id = randomUUID();
  const body = problemDocument(publicHref, { code, status, id });
  const headers = {
    ...SECURITY_HEADERS[publicHref.startsWith('https:') ? 'https' : 'http'],
    Connection: 'close',
    'Content-Type': `${PROBLEM_TYPE}; charset=utf-8`,
    'Content-Length': String(Buffer.byteLength(body)),
    'Content-Security-Policy': REFUSAL_POLICY,
    'X-Request-Id': id,
  };
  return { id, headers, body };
}
