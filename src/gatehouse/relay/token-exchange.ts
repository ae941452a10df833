/** Token exchange (RFC 8693): finds the subject and the connected app of a request, and issues an access token. */
import { z } from 'zod';
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import type { CurrentApps } from '../connected-apps/current-apps.ts';
import type { AccessTokens } from '../grants/access-tokens.ts';
import type { GrantStore } from '../grants/grant-store.ts';
import type { NarrowedTokens, Narrowing } from '../grants/narrowed-token.ts';
import { FAILURE_WORDS } from '../grants/refresh-failure.ts';
import type { RelayAccess, RelayCaller, RelayGate } from './gate.ts';
import type { IdTokens } from './id-token.ts';
import type { RelayRule, RelaySubject } from './policy.ts';
import type { UserAssertions } from './user-assertion.ts';

export const ACCESS_TOKEN_TYPE = 'urn:ietf:params:oauth:token-type:access_token';
export const EXCHANGE_GRANT_TYPE = 'urn:ietf:params:oauth:grant-type:token-exchange';
export const SUBJECT_TOKEN_TYPES = {
  assertion: 'urn:ietf:params:oauth:token-type:jwt',
  idToken: 'urn:ietf:params:oauth:token-type:id_token',
  user: 'urn:gatehouse:token-type:user',
} as const;

/** The parameters of RFC 8693 section 2.1. The messages are sent as `error_description`. */
export const exchangeRequestSchema = z.object({
  grant_type: z.literal(EXCHANGE_GRANT_TYPE, {
    error: ({ input }) =>
      input === undefined ? 'Send the grant_type.' : `The grant_type must be ${EXCHANGE_GRANT_TYPE}.`,
  }),
  subject_token: z
    .string('Send subject_token and subject_token_type.')
    .describe('a user assertion, an ID token of the provider, or a user id'),
  subject_token_type: z.enum(
    SUBJECT_TOKEN_TYPES,
    `Send one of these as subject_token_type: ${Object.values(SUBJECT_TOKEN_TYPES).join(', ')}.`,
  ),
  audience: z
    .string()
    .optional()
    .describe('id of a connected app; may be left out if resource or the relay token identifies only one'),
  resource: z
    .string()
    .optional()
    .describe(
      'a resource that a connected app declares, for an access token that is valid only there (RFC 8707); or, for an app that declares none, its API base URL or a URL below it',
    ),
  scope: z.string().optional().describe('granted scopes, separated by spaces; all of them by default'),
  requested_token_type: z
    .literal(ACCESS_TOKEN_TYPE, `The requested_token_type must be ${ACCESS_TOKEN_TYPE}.`)
    .optional(),
});

export type ExchangeRequest = z.output<typeof exchangeRequestSchema>;

/** Expected failures are results. `error` is a code of RFC 6749 section 5.2 and RFC 8693 section 2.2.2. */
type ExchangeResult =
  | {
      kind: 'token';
      userId: string;
      app: string;
      accessToken: string;
      scopes: readonly string[];
      expiresInSeconds: number | undefined;
      /** The only resource that the access token is valid for, if it is restricted to one. */
      resource?: string | undefined;
    }
  /** `connectUrl`: where the user can connect or reconnect, if that helps. */
  | { kind: 'refused'; error: ExchangeError; description: string; connectUrl?: string | undefined }
  | { kind: 'too_many'; retryAfterSeconds: number }
  | { kind: 'unavailable'; retryAfterSeconds: number; connectUrl?: string | undefined };

export const EXCHANGE_ERRORS = ['invalid_request', 'invalid_target', 'invalid_scope', 'unauthorized_client'] as const;
type ExchangeError = (typeof EXCHANGE_ERRORS)[number];

/** RFC 8693 section 2.2.2: `invalid_request` for a refused subject, `invalid_target` for a refused target. */
const RULE_ERRORS: Partial<Record<RelayRule, ExchangeError>> = {
  apps: 'invalid_target',
  users: 'invalid_request',
  assertUser: 'invalid_request',
  acceptIdTokens: 'invalid_request',
  fullScope: 'invalid_scope',
};

export interface TokenExchange {
  /** Exchanges a subject token for an access token, and counts the call by its result. */
  exchange(caller: RelayCaller, request: ExchangeRequest): Promise<ExchangeResult>;
}

export function createTokenExchange(parts: {
  apps: CurrentApps;
  gate: RelayGate;
  assertions: UserAssertions;
  idTokens: IdTokens;
  accessTokens: Pick<AccessTokens, 'get'>;
  narrowed: NarrowedTokens;
  grants: Pick<GrantStore, 'load' | 'noteUse'>;
  publicHref: string;
  clock: () => number;
}): TokenExchange {
  const { apps, gate, assertions, idTokens, accessTokens, narrowed, grants, publicHref, clock } = parts;

  const refusedByPolicy = (caller: RelayCaller, access: RelayAccess): ExchangeResult | undefined => {
    const refusal = gate.applyPolicy(caller, access);
    return refusal && refuse(RULE_ERRORS[refusal.rule] ?? 'unauthorized_client', refusal.detail);
  };

  /** Returns the subject. If the subject token is not valid, counts a refusal and returns undefined. */
  const subjectOf = async (
    caller: RelayCaller,
    { subject_token: token, subject_token_type: type }: ExchangeRequest,
  ): Promise<RelaySubject | undefined> => {
    if (type === SUBJECT_TOKEN_TYPES.user) return gate.loadSubject({ kind: 'user', id: token, proven: false });
    const isIdToken = type === SUBJECT_TOKEN_TYPES.idToken;
    const id = await (isIdToken ? idTokens.userOf(token) : assertions.verify(token, caller.token.id));
    if (id !== undefined) return gate.loadSubject({ kind: 'user', id, proven: true });
    gate.count(caller, { scope: 'token:exchange' }, isIdToken ? 'idToken' : 'userAssertion');
    return undefined;
  };

  /** Returns the app, if the request and the relay token identify exactly one. */
  const appOf = ({ audience, resource }: ExchangeRequest, { token }: RelayCaller): ConnectedApp | undefined => {
    const matching = apps
      .list()
      .filter((app) => !app.disabled)
      .filter((app) => audience === undefined || app.id === audience)
      .filter((app) => resource === undefined || isResourceOf(app, resource));
    const candidates = matching.length > 1 ? matching.filter(({ id }) => token.apps.includes(id)) : matching;
    return candidates.length === 1 ? candidates[0] : undefined;
  };

  const grantOf = async (userId: string, app: ConnectedApp) => {
    const stored = await grants.load(userId, app);
    return stored && 'grant' in stored ? stored.grant : undefined;
  };

  const tokenResult = (
    userId: string,
    app: ConnectedApp,
    { accessToken, scopes }: { accessToken: string; scopes: readonly string[] },
    expiresAt: number | undefined,
  ): Extract<ExchangeResult, { kind: 'token' }> => {
    const expiresInSeconds =
      expiresAt === undefined ? undefined : Math.max(0, Math.floor((expiresAt - clock()) / 1000));
    return { kind: 'token', userId, app: app.id, accessToken, scopes, expiresInSeconds };
  };

  const connectUrlOf = ({ id }: ConnectedApp) => `${publicHref}/connections/${id}`;

  /** Returns the access token with every granted scope. */
  const wholeToken = async (relayTokenId: string, userId: string, app: ConnectedApp): Promise<ExchangeResult> => {
    const result = await accessTokens.get(userId, app, { relayTokenId });
    const connectUrl = connectUrlOf(app);
    switch (result.kind) {
      case 'token': {
        if (result.dpopKey !== undefined) return refuse('invalid_target', TOKENS_ARE_BOUND);
        const grant = await grantOf(userId, app);
        return tokenResult(
          userId,
          app,
          result,
          grant?.accessToken === result.accessToken ? grant.expiresAt : undefined,
        );
      }
      case 'not_connected':
        return refuse(
          'invalid_target',
          `The user has not connected this app. The user can connect it at ${connectUrl}`,
          connectUrl,
        );
      case 'reconnect_needed': {
        const description = `${FAILURE_WORDS[result.cause]} The user can reconnect at ${connectUrl}`;
        return refuse('invalid_target', description, connectUrl);
      }
      case 'unavailable':
        return unavailable(result.retryAfterSeconds, result.isUnverified ? connectUrl : undefined);
    }
  };

  const narrowerToken = async (
    caller: RelayCaller,
    subject: RelaySubject,
    app: ConnectedApp,
    narrowing: Narrowing,
  ): Promise<ExchangeResult> => {
    const result = await narrowed.accessToken(subject.id, app, narrowing, caller.token.id);
    switch (result.kind) {
      case 'narrowed':
        return { ...tokenResult(subject.id, app, result, result.expiresAt), resource: narrowing.resource };
      case 'unavailable':
        return unavailable(result.retryAfterSeconds, result.isUnverified ? connectUrlOf(app) : undefined);
      case 'too_many':
        return { kind: 'too_many', retryAfterSeconds: result.retryAfterSeconds };
      case 'no_grant': {
        // `wholeToken` gives the reason. If the user has connected in the meantime, the client must retry.
        const whole = await wholeToken(caller.token.id, subject.id, app);
        return whole.kind === 'token' ? unavailable(1) : whole;
      }
      case 'unsupported': {
        if (narrowing.resource !== undefined) return refuse('invalid_target', NO_TOKEN_FOR_RESOURCE);
        const access = { scope: 'token:exchange' as const, app: app.id, subject, fullScope: true };
        return refusedByPolicy(caller, access) ?? wholeToken(caller.token.id, subject.id, app);
      }
    }
  };

  const tokenFor = async (
    caller: RelayCaller,
    subject: RelaySubject,
    app: ConnectedApp,
    request: ExchangeRequest,
  ): Promise<ExchangeResult> => {
    const scopes = [...new Set(request.scope?.split(' ').filter((scope) => scope !== ''))];
    // If an app declares no resources, `resource` only names the app.
    const resource = app.resources && request.resource;
    const narrowing = { scopes: scopes.length > 0 ? scopes : undefined, resource };
    if (scopes.length === 0 && resource === undefined) return wholeToken(caller.token.id, subject.id, app);
    const grant = await grantOf(subject.id, app);
    if (!grant) return narrowerToken(caller, subject, app, narrowing);
    if (grant.dpopKey !== undefined) return refuse('invalid_target', TOKENS_ARE_BOUND);
    if (!scopes.every((scope) => grant.scopes.includes(scope))) {
      return refuse('invalid_scope', 'Request only scopes that the user has granted.');
    }
    const hasAllScopes = grant.scopes.every((granted) => scopes.includes(granted));
    if (hasAllScopes && resource === undefined) return wholeToken(caller.token.id, subject.id, app);
    return narrowerToken(caller, subject, app, narrowing);
  };

  return {
    async exchange(caller, request) {
      const isIdToken = request.subject_token_type === SUBJECT_TOKEN_TYPES.idToken;
      const access = { scope: 'token:exchange' as const, idToken: isIdToken };
      const earlyRefusal = refusedByPolicy(caller, access);
      if (earlyRefusal) return earlyRefusal;
      const subject = await subjectOf(caller, request);
      if (!subject) {
        return refuse('invalid_request', 'The subject_token is not valid, has expired, or has another audience.');
      }
      const app = appOf(request, caller);
      if (!app) {
        return refuse(
          'invalid_target',
          'Name one connected app: send its id as audience, or one of its resources as resource. If the app declares no resources, send its API base URL as resource.',
        );
      }
      const accessToApp = { ...access, app: app.id, subject };
      const refusal = refusedByPolicy(caller, accessToApp);
      if (refusal) return refusal;
      const result = await tokenFor(caller, subject, app, request);
      gate.count(caller, accessToApp, result.kind === 'token' ? 'succeeded' : 'failed');
      // Not awaited, and never rejects.
      if (result.kind === 'token') void grants.noteUse(subject.id, app.id);
      return result;
    },
  };
}

/** A token bound to our key (RFC 9449) is of no use to the service. */
const TOKENS_ARE_BOUND =
  'The provider binds the access tokens of this app to Gatehouse. Call the platform through the relay instead.';
const NO_TOKEN_FOR_RESOURCE =
  'The provider does not issue an access token for only this resource, or not with these scopes.';

function refuse(error: ExchangeError, description: string, connectUrl?: string): ExchangeResult {
  return { kind: 'refused', error, description, connectUrl };
}

function unavailable(retryAfterSeconds: number, connectUrl?: string): ExchangeResult {
  return { kind: 'unavailable', retryAfterSeconds, connectUrl };
}

/**
 * True if the app declares the resource (RFC 8693 section 2.1, RFC 8707). If the app declares none, true for its API
 * base URL and the URLs below it.
 */
function isResourceOf(app: ConnectedApp, resource: string): boolean {
  if (app.resources) return app.resources.includes(resource);
  if (app.apiBaseUrl === undefined) return false;
  const [base, url] = [URL.parse(app.apiBaseUrl), URL.parse(resource)];
  if (!base || !url || url.hash !== '' || url.origin !== base.origin) return false;
  const path = base.pathname.replace(/\/+$/, '');
  return url.pathname === path || url.pathname.startsWith(`${path}/`);
}
