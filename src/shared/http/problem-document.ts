/** The problem document (RFC 9457). */
import { z } from 'zod';
import { faultSchema } from '../config/input-faults.ts';
import { PROBLEMS, type ProblemCode } from '../errors.ts';

export const PROBLEM_TYPE = 'application/problem+json';

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
