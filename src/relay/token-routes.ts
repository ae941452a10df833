/** Serves `POST /relay/token`: client authentication, parameters and responses of token exchange (RFC 8693, RFC 6749 section 5). */
import type { Request, RequestHandler, Response } from 'express';
import { z } from 'zod';
import type { AuditNotes } from '../audit/notes.ts';
import { described, json, type Operation } from '../http/description.ts';
import type { RelayCaller, RelayGate } from './gate.ts';
import { RELAY_TOKEN_PREFIX } from './relay-token.ts';
import {
  ACCESS_TOKEN_TYPE,
  EXCHANGE_ERRORS,
  type ExchangeRequest,
  type ExchangeResult,
  SUBJECT_TOKEN_TYPES,
  type TokenExchange,
} from './token-exchange.ts';

const GRANT_TYPE = 'urn:ietf:params:oauth:grant-type:token-exchange';

/** RFC 8693 section 2.1. */
const requestSchema = z.object({
  grant_type: z.literal(GRANT_TYPE),
  subject_token: z.string().describe('a user assertion, an ID token of the provider, or a user id'),
  subject_token_type: z.enum(SUBJECT_TOKEN_TYPES),
  audience: z
    .string()
    .optional()
    .describe('id of a connected app; may be left out where resource or the relay token leaves only one'),
  resource: z.string().optional().describe('the API base URL of a connected app, or a URL below it (RFC 8707)'),
  scope: z.string().optional().describe('granted scopes, with spaces between them; all of them where left out'),
  requested_token_type: z.literal(ACCESS_TOKEN_TYPE).optional(),
});

/** RFC 8693 section 2.2.1. */
const responseSchema = z.object({
  access_token: z.string(),
  issued_token_type: z.literal(ACCESS_TOKEN_TYPE),
  token_type: z.literal('Bearer'),
  expires_in: z.int().optional().describe('in seconds; left out where the provider did not say'),
  scope: z.string(),
});

/** RFC 6749 section 5.2 and RFC 8693 section 2.2.2. */
const errorSchema = z.object({
  error: z.enum([...EXCHANGE_ERRORS, 'unsupported_grant_type', 'invalid_client', 'temporarily_unavailable']),
  error_description: z.string(),
});

const EXCHANGE: Operation = {
  summary: 'Exchange for an access token of a user (RFC 8693)',
  credentials: [{ relayToken: ['token:exchange'] }, { relayTokenAsPassword: ['token:exchange'] }],
  form: requestSchema,
  responses: { 200: json(responseSchema), 400: json(errorSchema), 401: json(errorSchema), 503: json(errorSchema) },
};

/** OAuth errors have the form of RFC 6749 section 5.2; other failures (rate limit, storage) are problem documents. */
export function tokenExchangeRoute(parts: {
  gate: RelayGate;
  exchange: TokenExchange;
  audit: Pick<AuditNotes, 'note'>;
}): RequestHandler {
  const { gate, exchange, audit } = parts;
  return described<RequestHandler>(EXCHANGE, async (req, res) => {
    res.set({ 'Cache-Control': 'no-store', Pragma: 'no-cache' });
    const { scheme, text, id } = credentialsOf(req);
    const caller = await gate.authenticateToken(text, req, res);
    if (!caller || (id !== undefined && id !== caller.token.id)) return refuseClient(res, scheme);
    const request = requestOf(req);
    if ('error' in request) return refuse(res, 400, request.error, request.description);
    const result = await exchange.exchange(caller, request);
    if (result.kind === 'token') auditExchange(audit, caller, request, result);
    return sendResult(res, result);
  });
}

interface Credentials {
  scheme: 'Bearer' | 'Basic' | 'none';
  text: string | undefined;
  /** Basic: the user name, which has to be the token's id. */
  id?: string;
}

function credentialsOf(req: Request): Credentials {
  const headers = req.headersDistinct.authorization ?? [];
  const [header = ''] = headers;
  const [, scheme = '', value = ''] = /^(Bearer|Basic) +([!-~]{1,400})$/i.exec(header) ?? [];
  const isInUrl = req.originalUrl.includes(RELAY_TOKEN_PREFIX);
  if (headers.length !== 1 || isInUrl) return { scheme: 'none', text: undefined };
  if (scheme.toLowerCase() !== 'basic') return { scheme: 'Bearer', text: scheme === '' ? undefined : value };
  // RFC 7617 section 2: the first colon ends the user name; the password may contain more.
  const [, id = '', text = ''] = /^([^:]*):(.*)$/s.exec(Buffer.from(value, 'base64').toString('latin1')) ?? [];
  return { scheme: 'Basic', text: formDecoded(text), id: formDecoded(id) };
}

/** RFC 6749 section 2.3.1: user name and password are form-encoded. */
function formDecoded(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return '';
  }
}

type BadRequest = { error: 'invalid_request' | 'unsupported_grant_type'; description: string };

function requestOf(req: Request): ExchangeRequest | BadRequest {
  if (!req.is('urlencoded')) return badRequest('Send the parameters as a form (application/x-www-form-urlencoded).');
  const body: Record<string, unknown> = req.body;
  const repeated = Object.values(body).some((value) => typeof value !== 'string');
  if (repeated) return badRequest('Give each parameter once.');
  // RFC 6749 section 3.2: a parameter without a value counts as omitted.
  const field = (name: string) => (Object.hasOwn(body, name) ? String(body[name]) || undefined : undefined);
  if (field('grant_type') !== GRANT_TYPE) {
    const missing = field('grant_type') === undefined;
    return missing
      ? badRequest('Give the grant_type.')
      : { error: 'unsupported_grant_type', description: `The grant_type here is ${GRANT_TYPE}.` };
  }
  const subjectToken = field('subject_token');
  const subjectTokenType = field('subject_token_type');
  if (subjectToken === undefined || subjectTokenType === undefined) {
    return badRequest('Give subject_token and subject_token_type.');
  }
  if (field('actor_token') !== undefined || field('actor_token_type') !== undefined) {
    return badRequest('Leave actor_token out: the relay token identifies the actor.');
  }
  const requestedType = field('requested_token_type');
  if (requestedType !== undefined && requestedType !== ACCESS_TOKEN_TYPE) {
    return badRequest(`The requested_token_type here is ${ACCESS_TOKEN_TYPE}.`);
  }
  const scope = field('scope')
    ?.split(' ')
    .filter((one) => one !== '');
  const scopes = scope && scope.length > 0 ? [...new Set(scope)] : undefined;
  return { subjectToken, subjectTokenType, audience: field('audience'), resource: field('resource'), scopes };
}

function badRequest(description: string): BadRequest {
  return { error: 'invalid_request', description };
}

/** RFC 6749 section 5.2: 401 with the scheme that the client used. */
function refuseClient(res: Response, scheme: Credentials['scheme']): void {
  const challenge = { Bearer: 'Bearer error="invalid_token"', Basic: 'Basic realm="relay"', none: 'Bearer' }[scheme];
  res.set('WWW-Authenticate', challenge);
  refuse(res, 401, 'invalid_client', 'Send a relay token that is valid: as Bearer, or as Basic with its id.');
}

type ErrorCode = z.output<typeof errorSchema>['error'];

function refuse(res: Response, status: number, error: ErrorCode, description: string): void {
  res.status(status).json({ error, error_description: description } satisfies z.output<typeof errorSchema>);
}

function sendResult(res: Response, result: ExchangeResult): void {
  if (result.kind === 'refused') {
    refuse(res, 400, result.error, result.description);
    return;
  }
  if (result.kind === 'unavailable') {
    res.set('Retry-After', String(result.retryAfterSeconds));
    refuse(res, 503, 'temporarily_unavailable', result.description);
    return;
  }
  res.json({
    access_token: result.accessToken,
    issued_token_type: ACCESS_TOKEN_TYPE,
    token_type: 'Bearer',
    ...(result.expiresInSeconds === undefined ? {} : { expires_in: result.expiresInSeconds }),
    scope: result.scopes.join(' '),
  } satisfies z.output<typeof responseSchema>);
}

/** Every issued access token gets an audit entry; relayed calls are only counted. */
function auditExchange(
  audit: Pick<AuditNotes, 'note'>,
  { token, address, requestId }: RelayCaller,
  { subjectTokenType }: ExchangeRequest,
  result: Extract<ExchangeResult, { kind: 'token' }>,
): void {
  audit.note({
    event: 'relay_token.exchanged',
    actor: { kind: 'relay_token', id: token.id, name: token.name },
    target: { kind: 'connected_app', id: result.app },
    userId: result.userId,
    address,
    requestId,
    facts: { proof: subjectTokenType, scopes: [...result.scopes] },
  });
}
