/** Finds the declared route of a call, and rebuilds its path and query: nothing else of a request's target is sent. */
import { AppError } from '../../shared/errors.ts';
import {
  type AppRoute,
  CURRENT_THREAD,
  type PatternSegment,
  parsePattern,
  type RouteMethod,
} from '../../shared/provider/app-routes.ts';
import type { ConnectedAppRegistration } from '../../shared/provider/connected-app.ts';

type RoutesFields = Readonly<Pick<ConnectedAppRegistration, 'apiBaseUrl' | 'routes' | 'threadPath'>>;

interface CompiledRoute {
  route: AppRoute;
  segments: readonly PatternSegment[];
}

/** Cached, since each call needs them; apps are frozen. The most specific routes come first. */
const compiledRoutes = new WeakMap<RoutesFields, readonly CompiledRoute[]>();

function compiledRoutesOf(app: RoutesFields): readonly CompiledRoute[] {
  const compiled = compiledRoutes.get(app) ?? compile(app);
  compiledRoutes.set(app, compiled);
  return compiled;
}

function compile(app: RoutesFields): readonly CompiledRoute[] {
  const parameterCount = ({ segments }: CompiledRoute) => segments.filter((segment) => 'parameter' in segment).length;
  return routesOf(app)
    .map((route) => ({ route, segments: parsePattern(route.path) ?? [] }))
    .sort((one, other) => parameterCount(one) - parameterCount(other));
}

/** Returns the routes of an app: the current thread, and those that it declares. An app without a platform has none. */
export function routesOf({ apiBaseUrl, routes, threadPath }: RoutesFields): AppRoute[] {
  if (apiBaseUrl === undefined) return [];
  return [{ name: CURRENT_THREAD, method: 'GET', path: threadPath, query: [], scopes: [] }, ...routes];
}

export interface MatchedCall {
  route: AppRoute;
  /** The path below the API base URL, with the query. */
  path: string;
}

/**
 * Returns the route of a call.
 * @param method method of the request; HEAD matches the routes of GET
 * @param target the raw path and query, as sent, without what stands before the platform's own path
 * @throws AppError `not_found`, `method_not_allowed`, `invalid_request`
 */
export function matchCall(app: RoutesFields, method: string, target: string): MatchedCall {
  const [rawPath = '', rawQuery] = splitAtFirst(target, '?');
  const segments = decodedSegments(rawPath);
  const candidates = compiledRoutesOf(app).filter((compiled) => matches(compiled, segments));
  if (candidates.length === 0) throw new AppError('not_found', { detail: NO_ROUTE });
  const routeMethod = method === 'HEAD' ? 'GET' : method;
  const match = candidates.find((candidate) => candidate.route.method === routeMethod);
  if (!match) throw otherMethod(candidates.map((candidate) => candidate.route.method));
  const query = rawQuery === undefined ? '' : rebuiltQuery(match.route, rawQuery);
  return { route: match.route, path: rebuiltPath(match, segments) + (query && `?${query}`) };
}

const NO_ROUTE = 'This app declares no route with this path. GET the address of the app for the list of its routes.';

function otherMethod(methods: readonly RouteMethod[]): AppError {
  const allow = [...new Set(methods.flatMap((name) => (name === 'GET' ? ['GET', 'HEAD'] : [name])))].join(', ');
  return new AppError('method_not_allowed', { detail: `Allowed here: ${allow}.`, headers: { Allow: allow } });
}

function matches({ segments }: CompiledRoute, sent: readonly string[]): boolean {
  return (
    segments.length === sent.length &&
    segments.every((segment, index) => 'parameter' in segment || segment.literal === sent[index])
  );
}

function rebuiltPath({ segments }: CompiledRoute, sent: readonly string[]): string {
  const texts = segments.map((segment, index) =>
    'literal' in segment ? segment.literal : encodeURIComponent(sent[index] ?? ''),
  );
  return `/${texts.join('/')}`;
}

/** Returns the segments of a path, each decoded once. @throws AppError `not_found` if one could mean another path */
function decodedSegments(rawPath: string): string[] {
  const [before, ...texts] = rawPath.split('/');
  const segments = texts.map(decodedOnce);
  if (before === '' && segments.every((segment) => segment !== undefined && !isAmbiguous(segment))) {
    return segments as string[];
  }
  throw new AppError('not_found', {
    detail:
      'No route has such a path: a segment of it is empty, "." or "..", is not encoded in UTF-8, or has a slash, backslash, semicolon, percent sign or control character, or what some servers take for one of these.',
  });
}

/**
 * Returns true for a text that a server may take for more, or less, than one segment. Some servers replace full-width
 * forms and the like, such as U+FF0F by a slash, some trim spaces, and some drop characters that are not shown.
 */
function isAmbiguous(segment: string): boolean {
  const form = segment
    .normalize('NFKC')
    .replace(/\p{Default_Ignorable_Code_Point}/gu, '')
    .trim();
  return /^\.{0,2}$/.test(form) || SEPARATOR.test(segment) || SEPARATOR.test(form);
}

/** Also what Windows converts to a slash or backslash in an older character set ("best fit"). */
const SEPARATOR = /[/\\;%\p{Cc}\u2044\u2215\u2216\u00a5\u20a9]/u;

/** @throws AppError `invalid_request` for a parameter that the route does not declare, or that comes again */
function rebuiltQuery(route: AppRoute, rawQuery: string): string {
  const seenNames = new Set<string>();
  const parameters = rawQuery.split('&').filter((text) => text !== '');
  return parameters
    .map((parameter) => {
      const [rawName = '', rawValue] = splitAtFirst(parameter, '=');
      const name = decodedOnce(rawName);
      if (name === undefined || !route.query.includes(name)) throw undeclared(route);
      if (seenNames.has(name)) throw new AppError('invalid_request', { detail: `Send "${name}" once.` });
      seenNames.add(name);
      const encodedName = encodeURIComponent(name);
      return rawValue === undefined ? encodedName : `${encodedName}=${encodedValue(name, rawValue)}`;
    })
    .join('&');
}

function undeclared({ name, query }: AppRoute): AppError {
  const allowed = query.length > 0 ? `only: ${query.join(', ')}` : 'no parameters';
  return new AppError('invalid_request', { detail: `The route "${name}" accepts in its query ${allowed}.` });
}

/** A plus sign stays one: whether it means a space is up to the platform. */
function encodedValue(name: string, rawValue: string): string {
  const parts = rawValue.split('+').map(decodedOnce);
  if (parts.every((part) => part !== undefined)) return parts.map(encodeURIComponent).join('+');
  throw new AppError('invalid_request', {
    detail: `Encode the value of "${name}" in UTF-8, with percent signs as %25.`,
  });
}

/** Returns the text with its escapes decoded; undefined if they are no UTF-8, or if other characters lack an escape. */
function decodedOnce(text: string): string | undefined {
  if (/[^\x21-\x7e]/.test(text)) return undefined;
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

function splitAtFirst(text: string, separator: string): [string, string?] {
  const index = text.indexOf(separator);
  return index < 0 ? [text] : [text.slice(0, index), text.slice(index + 1)];
}
