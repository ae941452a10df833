/**
 * Serves `POST /relay/token`: client authentication, parameters and responses of token exchange (RFC 8693, RFC 6749
 * section 5).
 */
import type { Request, RequestHandler, Response } from 'express';
import { z } from 'zod';
import { AppError } from '../../shared/errors.ts';
import { bearerOf } from '../../shared/http/bearer.ts';
import { described, json, type Operation } from '../../shared/http/description.ts';
import type { AuditNotes } from '../audit/notes.ts';
import { hasTokenInUrl, type RelayGate } from './gate.ts';
import { callerOf, type RelayRoutes } from './routes.ts';
import {
  ACCESS_TOKEN_TYPE,
  EXCHANGE_ERRORS,
  type ExchangeRequest,
  exchangeRequestSchema,
  type TokenExchange,
} from './token-exchange.ts';

/** The response of RFC 8693 section 2.2.1. */
const responseSchema = z.object({
  access_token: z.string(),
  issued_token_type: z.literal(ACCESS_TOKEN_TYPE),
  token_type: z.literal('Bearer'),
  expires_in: z.int().optional().describe('in seconds; left out if the provider did not send it'),
  scope: z.string(),
});

/** The error response of RFC 6749 section 5.2 and RFC 8693 section 2.2.2. */
const errorSchema = z.object({
  error: z.enum([...EXCHANGE_ERRORS, 'unsupported_grant_type', 'invalid_client', 'temporarily_unavailable']),
  error_description: z.string(),
  connectUrl: z.string().optional().describe('where the user can connect or reconnect; left out if that does not help'),
});

const EXCHANGE: Operation = {
  summary: 'Exchange for an access token of a user (RFC 8693)',
  credentials: [{ relayToken: ['token:exchange'] }, { relayTokenAsPassword: ['token:exchange'] }],
  form: exchangeRequestSchema,
  ignoresUnknown: 'RFC 6749 section 3.2',
  responses: { 200: json(responseSchema), 400: json(errorSchema), 401: json(errorSchema), 503: json(errorSchema) },
};

const TOO_MANY_NARROWINGS =
  'Each access token with fewer scopes, or for one resource, ends the earlier ones of this user at the provider. Keep the token that you have, and wait as long as Retry-After says.';

/** OAuth errors have the form of RFC 6749 section 5.2; other failures (rate limit, storage) are problem documents. */
export function tokenExchangeRoutes(parts: {
  gate: RelayGate;
  exchange: TokenExchange;
  audit: Pick<AuditNotes, 'note'>;
}): Pick<RelayRoutes, 'clientGuard' | 'exchangeToken'> {
  const { gate, exchange, audit } = parts;

  const clientGuard: RequestHandler = async (req, res, next) => {
    res.set({ 'Cache-Control': 'no-store', Pragma: 'no-cache' });
    const { challenge, token, id } = credentialsOf(req);
    const caller = await gate.authenticateToken(token, req, id);
    if (!caller) {
      // RFC 6749 section 5.2: 401 with the scheme that the client used.
      res.set('WWW-Authenticate', challenge);
      return refuse(
        res,
        401,
        'invalid_client',
        'Send a relay token that is valid: as Bearer, or as Basic with its id.',
      );
    }
    req.context.relayCaller = caller;
    next();
  };

  const exchangeToken = described<RequestHandler>(EXCHANGE, async (req, res) => {
    const caller = callerOf(req);
    const request = requestOf(req);
    if ('error' in request) return refuse(res, 400, request.error, request.description);
    const result = await exchange.exchange(caller, request);
    if (result.kind === 'refused') return refuse(res, 400, result.error, result.description, result.connectUrl);
    if (result.kind === 'too_many') {
      const { retryAfterSeconds } = result;
      throw new AppError('rate_limited', { detail: TOO_MANY_NARROWINGS, retryAfterSeconds });
    }
    if (result.kind === 'unavailable') {
      const { retryAfterSeconds, connectUrl } = result;
      res.set('Retry-After', String(retryAfterSeconds));
      const description = connectUrl
        ? `The access token could not be refreshed. Try again later. If that does not help, the user can reconnect at ${connectUrl}`
        : 'The provider is unavailable. Try again later.';
      return refuse(res, 503, 'temporarily_unavailable', description, connectUrl);
    }
    const { app, userId, accessToken, scopes, expiresInSeconds, resource } = result;
    // Every issued access token gets an audit entry, or is counted in one; relayed calls are only counted by the hour.
    audit.note({
      event: 'relay_token.exchanged',
      actor: { kind: 'relay_token', id: caller.token.id, name: caller.token.name },
      target: { kind: 'connected_app', id: app },
      userId,
      address: caller.address,
      requestId: caller.requestId,
      facts: { proof: request.subject_token_type, scopes, resource },
    });
    res.json({
      access_token: accessToken,
      issued_token_type: ACCESS_TOKEN_TYPE,
      token_type: 'Bearer',
      ...(expiresInSeconds !== undefined && { expires_in: expiresInSeconds }),
      scope: scopes.join(' '),
    } satisfies z.output<typeof responseSchema>);
  });

  return { clientGuard, exchangeToken };
}

interface ClientCredentials {
  /** `WWW-Authenticate` in the response to invalid credentials. */
  challenge: string;
  token: string | undefined;
  /** The user name of Basic authentication, which must be the token's id. */
  id?: string;
}

function credentialsOf(req: Request): ClientCredentials {
  const headers = req.headersDistinct.authorization ?? [];
  if (headers.length !== 1 || hasTokenInUrl(req)) return { challenge: 'Bearer', token: undefined };
  const basic = /^Basic +([!-~]{1,400})$/i.exec(headers[0] ?? '')?.[1];
  if (basic === undefined) return { challenge: 'Bearer error="invalid_token"', token: bearerOf(req).token };
  // RFC 7617 section 2: the first colon ends the user name; the password may contain more.
  const [, id = '', password = ''] = /^([^:]*):(.*)$/s.exec(Buffer.from(basic, 'base64').toString('latin1')) ?? [];
  return { challenge: 'Basic realm="relay"', token: formDecoded(password), id: formDecoded(id) };
}

/** Decodes a user name or a password, which are form-encoded (RFC 6749 section 2.3.1). */
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
  // RFC 6749 section 3.2: a parameter without a value counts as omitted.
  const parameters = new Map(Object.entries<unknown>(req.body).filter(([, value]) => value !== ''));
  if ([...parameters.values()].some((value) => typeof value !== 'string')) {
    return badRequest('Send each parameter once.');
  }
  if (parameters.has('actor_token') || parameters.has('actor_token_type')) {
    return badRequest('Leave actor_token out: the relay token identifies the actor.');
  }
  const parsed = exchangeRequestSchema.safeParse(Object.fromEntries(parameters));
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const isGrantType = issue?.path[0] === 'grant_type' && parameters.has('grant_type');
  return { error: isGrantType ? 'unsupported_grant_type' : 'invalid_request', description: issue?.message ?? '' };
}

function badRequest(description: string): BadRequest {
  return { error: 'invalid_request', description };
}

type ErrorCode = z.output<typeof errorSchema>['error'];

function refuse(res: Response, status: number, error: ErrorCode, description: string, connectUrl?: string): void {
  const body = { error, error_description: description, connectUrl };
  res.status(status).json(body satisfies z.output<typeof errorSchema>);
}
