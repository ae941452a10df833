/** Authorizes API calls by access token, with the refusals of RFC 6750 section 3 and RFC 9449 section 7. */
import type { Request, Response } from 'express';
import type { Account, Accounts } from './accounts.ts';
import { API_TOKEN_PREFIX, type ApiTokens } from './api-tokens.ts';
import { type AppSettings, isTokenAllowedFrom } from './app-settings.ts';
import type { AppRegistry } from './apps.ts';
import { DPOP_ALGORITHMS, type ProofClaim } from './dpop-proof.ts';
import type { ActiveToken, Introspect } from './introspection.ts';
import { SECOND_FACTOR_ACR } from './second-factor.ts';

export interface Authorization {
  /** Returns the account if the token is valid and has one of the scopes. Otherwise sends the refusal. */
  authorize(req: Request, res: Response, scopes: readonly string[]): Promise<Account | undefined>;
}

interface Parts {
  introspect: Introspect;
  apiTokens: ApiTokens;
  accounts: Accounts;
  apps: Pick<AppRegistry, 'settingsOf'>;
  isProofValid: (claim: ProofClaim) => Promise<boolean>;
  baseUrl: string;
  now: () => number;
}

type Scheme = 'Bearer' | 'DPoP';

export function createAuthorization(parts: Parts): Authorization {
  const { introspect, apiTokens, accounts, apps, isProofValid, baseUrl, now } = parts;

  async function findToken(token: string): Promise<ActiveToken | undefined> {
    if (!token.startsWith(API_TOKEN_PREFIX)) return introspect(token);
    const apiToken = apiTokens.use(token);
    return apiToken && { subject: apiToken.accountId, scopes: new Set(apiToken.scopes) };
  }

  /** Returns whether a bound token has a valid DPoP proof. A bearer token is not accepted as a bound one. */
  async function hasValidBinding(req: Request, scheme: Scheme, token: string, { keyThumbprint }: ActiveToken) {
    if (scheme === 'Bearer' || keyThumbprint === undefined) return scheme === 'Bearer' && keyThumbprint === undefined;
    const proof = req.headers.dpop;
    if (typeof proof !== 'string') return false;
    return isProofValid({ proof, method: req.method, url: baseUrl + req.path, token, keyThumbprint });
  }

  return {
    async authorize(req, res, scopes) {
      const credentials = /^(bearer|dpop)(?: +(.*))?$/i.exec(req.headers.authorization ?? '');
      if (hasSeveralTokens(req)) return refuseRequest(res);
      if (credentials === null) return askForToken(res);
      const scheme: Scheme = credentials[1]?.toLowerCase() === 'dpop' ? 'DPoP' : 'Bearer';
      const token = credentials[2] ?? '';
      const active = /^[A-Za-z0-9\-._~+/]+=*$/.test(token) ? await findToken(token) : undefined;
      const account = active && accounts.byId(active.subject);
      if (active === undefined || account === undefined || account.disabled) return refuseToken(res, scheme);
      // RFC 8707 section 3: a token for another resource is not accepted here.
      if ((active.audience ?? baseUrl) !== baseUrl) return refuseToken(res, scheme);
      if (!(await hasValidBinding(req, scheme, token, active))) {
        return scheme === 'DPoP' && active.keyThumbprint !== undefined ? refuseProof(res) : refuseToken(res, scheme);
      }
      const app = active.clientId === undefined ? undefined : apps.settingsOf(active.clientId);
      if (!isTokenAllowedFrom(req.socket.remoteAddress, account, app)) return refuseAddress(res);
      if (!scopes.some((scope) => active.scopes.has(scope))) return refuseScope(res, scheme, scopes);
      const demand = app && unmetDemand(active, app, now());
      return demand === undefined ? account : demandSignIn(res, scheme, demand);
    },
  };
}

/** RFC 6750 section 2 allows one method for each request; section 3.1 makes several an invalid request. */
function hasSeveralTokens(req: Request): boolean {
  const { rawHeaders, query } = req;
  const headers = rawHeaders.filter((name, index) => index % 2 === 0 && name.toLowerCase() === 'authorization').length;
  return headers > 1 || (headers === 1 && (query.access_token !== undefined || hasTokenInForm(req)));
}

/** RFC 6750 section 2.2. Routes that do not parse forms do not see such a token. */
function hasTokenInForm(req: Request): boolean {
  return Boolean(req.is('urlencoded')) && Object.hasOwn(req.body ?? {}, 'access_token');
}

function challengeOf(scheme: Scheme, parameters: string): string {
  const algorithms = scheme === 'DPoP' ? `algs="${DPOP_ALGORITHMS.join(' ')}", ` : '';
  return `${scheme} ${algorithms}${parameters}`;
}

function askForToken(res: Response): undefined {
  challenge(res, 401, 'Bearer', 'authentication_required', 'Send an access token in the Authorization header.');
}

function refuseRequest(res: Response): undefined {
  const description = 'The request contains a token in more than one place.';
  challenge(res, 400, 'Bearer error="invalid_request"', 'invalid_request', description);
}

function refuseToken(res: Response, scheme: Scheme): undefined {
  const description = 'The access token is unknown, expired or revoked.';
  challenge(res, 401, challengeOf(scheme, 'error="invalid_token"'), 'invalid_token', description);
}

function refuseProof(res: Response): undefined {
  const description = 'The DPoP proof is missing or already used, or is not for this request, this token and its key.';
  challenge(res, 401, challengeOf('DPoP', 'error="invalid_dpop_proof"'), 'invalid_dpop_proof', description);
}

function refuseAddress(res: Response): undefined {
  refuse(
    res,
    403,
    'ip_restricted',
    'The token works only from certain networks, and this address is not in any of them.',
  );
}

function refuseScope(res: Response, scheme: Scheme, scopes: readonly string[]): undefined {
  const header = challengeOf(scheme, `error="insufficient_scope", scope="${scopes[0]}"`);
  const needed = scopes.length > 1 ? `one of the scopes ${scopes.join(', ')}` : `the scope ${scopes[0]}`;
  challenge(res, 403, header, 'insufficient_scope', `This needs ${needed}.`);
}

/** Returns the parameters of the challenge for what the app demands and the sign-in lacks (RFC 9470 section 3). */
function unmetDemand({ acr, authTime = 0 }: ActiveToken, app: AppSettings, nowMs: number): string | undefined {
  const { demandSecondFactor, demandMaxAgeSeconds: maxAge } = app;
  const parameters = [
    ...(demandSecondFactor && acr !== SECOND_FACTOR_ACR ? [`acr_values="${SECOND_FACTOR_ACR}"`] : []),
    ...(maxAge !== undefined && nowMs / 1000 - authTime > maxAge ? [`max_age="${maxAge}"`] : []),
  ];
  return parameters.length === 0 ? undefined : parameters.join(', ');
}

function demandSignIn(res: Response, scheme: Scheme, demand: string): undefined {
  const header = challengeOf(scheme, `error="insufficient_user_authentication", ${demand}`);
  const description = 'A stronger or newer sign-in of the user is required.';
  challenge(res, 401, header, 'insufficient_user_authentication', description);
}

function challenge(res: Response, status: number, header: string, error: string, description: string): void {
  res.set('WWW-Authenticate', header);
  refuse(res, status, error, description);
}

/** Sends a refusal in the platform's format. */
export function refuse(res: Response, status: number, error: string, description: string): void {
  res.status(status).json({ error, error_code: status, error_description: description });
}
