/** The routes of an app, which are the calls that its platform may get: their schema, and the rules for several. Pure. */
import { z } from 'zod';

export const ROUTE_METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;
export type RouteMethod = (typeof ROUTE_METHODS)[number];

/** The route of `threadPath`, which every app with a platform has. */
export const CURRENT_THREAD = 'current-thread';

const MAX_ROUTES = 20;
const MAX_NAMES = 20;

/** A segment of a pattern: a literal text, or a parameter, which matches any text. */
export type PatternSegment = { literal: string } | { parameter: string };

/** The path characters of RFC 3986 (section 3.3) without escapes and ";", which some servers cut off. */
const LITERAL = /^[A-Za-z0-9_.~:@$!&'()*+,=-]+$/;
const PARAMETER = /^\{([A-Za-z][A-Za-z0-9_]{0,39})\}$/;
const PATTERN_ADVICE =
  'Enter a path such as /1/threads/{id}: its segments are texts or whole parameters in braces, without "..", query, escapes and slash at the end.';

/** Returns the segments of a pattern; undefined if it is not one. */
export function parsePattern(path: string): readonly PatternSegment[] | undefined {
  const [before, ...texts] = path.split('/');
  if (before !== '' || texts.length === 0) return undefined;
  const segments = texts.map((text) => {
    const parameter = PARAMETER.exec(text)?.[1];
    if (parameter !== undefined) return { parameter };
    return LITERAL.test(text) && text !== '.' && text !== '..' ? { literal: text } : undefined;
  });
  const parameters = segments.flatMap((segment) => (segment && 'parameter' in segment ? [segment.parameter] : []));
  if (new Set(parameters).size < parameters.length || segments.includes(undefined)) return undefined;
  return segments.filter((segment) => segment !== undefined);
}

export const scopeToken = z
  .string()
  .regex(
    /^[\x21\x23-\x5b\x5d-\x7e]{1,200}$/,
    'A scope is 1 to 200 visible characters without quotes, backslashes and spaces.',
  );

/** A list without repetitions. */
const distinct = <T extends z.ZodType>(item: T) =>
  z
    .array(item)
    .max(MAX_NAMES)
    .refine((items) => new Set(items).size === items.length, 'Enter each of them once.')
    .default([]);

export const appRouteSchema = z.strictObject({
  name: z
    .string()
    .regex(/^[a-z0-9-]{1,40}$/, 'A name is 1 to 40 of a-z, 0-9 and "-".')
    .refine((name) => name !== CURRENT_THREAD, {
      message: `"${CURRENT_THREAD}" is the name of the route of threadPath.`,
    })
    .describe('names the route in relay policies and logs'),
  method: z.enum(ROUTE_METHODS),
  path: z
    .string()
    .max(200)
    .refine((path) => parsePattern(path) !== undefined, PATTERN_ADVICE)
    .describe('appended to the API base URL'),
  query: distinct(
    z.string().regex(/^[A-Za-z0-9_.$[\]-]{1,60}$/, 'A name of a parameter is 1 to 60 of A-Z, a-z, 0-9 and "_.$[]-".'),
  ).describe('names of the query parameters that a call may have, each once'),
  scopes: distinct(scopeToken).describe('scopes of the app without which the platform refuses the call'),
});

export type AppRoute = z.output<typeof appRouteSchema>;

export const appRoutesSchema = z
  .array(appRouteSchema)
  .max(MAX_ROUTES)
  .superRefine((routes, context) => {
    routes.forEach((route, index) => {
      const earlierRoutes = routes.slice(0, index);
      const add = (field: keyof AppRoute, rule: string, message: string) =>
        context.addIssue({ code: 'custom', path: [index, field], message, params: { rule } });
      if (earlierRoutes.some(({ name }) => name === route.name)) {
        add('name', 'twice', `There is another route with the name "${route.name}".`);
      }
      const rival = earlierRoutes.find((earlier) => areAmbiguous(earlier, route));
      if (rival) add('path', 'ambiguous', ambiguityAdvice(rival.name));
    });
  })
  .default([]);

/** @param name the route that matches the same calls */
export const ambiguityAdvice = (name: string): string =>
  `The route "${name}" matches some of the same calls, and neither is more specific. Change or remove one of them.`;

type Call = Pick<AppRoute, 'method' | 'path'>;

/**
 * Returns true if both routes match some call, and neither is more specific: a route is more specific if it has a
 * literal wherever the other one has, and in one more place.
 */
export function areAmbiguous(first: Call, second: Call): boolean {
  const [segments = [], otherSegments = []] = [parsePattern(first.path), parsePattern(second.path)];
  if (first.method !== second.method || segments.length !== otherSegments.length) return false;
  const pairs = segments.map((segment, index) => [literalOf(segment), literalOf(otherSegments[index])] as const);
  if (pairs.some(([one, other]) => one !== undefined && other !== undefined && one !== other)) return false;
  const isFirstMoreLiteral = pairs.some(([one, other]) => one !== undefined && other === undefined);
  const isSecondMoreLiteral = pairs.some(([one, other]) => one === undefined && other !== undefined);
  return isFirstMoreLiteral === isSecondMoreLiteral;
}

function literalOf(segment: PatternSegment | undefined): string | undefined {
  return segment && 'literal' in segment ? segment.literal : undefined;
}
