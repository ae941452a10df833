/** Token exchange (RFC 8693): finds the subject and the connected app of a request, and issues an access token. */
import type { AppStore } from '../connected-apps/app-store.ts';
import type { ConnectedApp } from '../connected-apps/connected-app.ts';
import { TROUBLE_WORDS } from '../grants/grant.ts';
import type { GrantStore } from '../grants/grant-store.ts';
import type { NarrowedTokens } from '../grants/narrowed-token.ts';
import type { TokenVault } from '../grants/token-vault.ts';
import type { RelayCaller, RelayGate } from './gate.ts';
import type { IdTokens } from './id-token.ts';
import type { RelayRule, RelaySubject } from './policy.ts';
import type { UserAssertions } from './user-assertion.ts';

export const ACCESS_TOKEN_TYPE = 'urn:ietf:params:oauth:token-type:access_token';
export const SUBJECT_TOKEN_TYPES = {
  assertion: 'urn:ietf:params:oauth:token-type:jwt',
  idToken: 'urn:ietf:params:oauth:token-type:id_token',
  user: 'urn:gatehouse:token-type:user',
} as const;

/** The parameters of the request; none is repeated. */
export interface ExchangeRequest {
  subjectToken: string;
  subjectTokenType: string;
  audience: string | undefined;
  resource: string | undefined;
  /** Undefined: all granted scopes. */
  scopes: readonly string[] | undefined;
}

/** `error` as in RFC 6749 section 5.2 and RFC 8693 section 2.2.2. Expected failures are values. */
export type ExchangeResult =
  | {
      kind: 'token';
      userId: string;
      app: string;
      accessToken: string;
      scopes: readonly string[];
      expiresInSeconds: number | undefined;
    }
  | { kind: 'refused'; error: ExchangeError; description: string }
  | { kind: 'unavailable'; description: string; retryAfterSeconds: number };

export const EXCHANGE_ERRORS = ['invalid_request', 'invalid_target', 'invalid_scope', 'unauthorized_client'] as const;
export type ExchangeError = (typeof EXCHANGE_ERRORS)[number];

export interface TokenExchange {
  /** Counts every outcome at the gate. */
  exchange(caller: RelayCaller, request: ExchangeRequest): Promise<ExchangeResult>;
}

type Refusal = Exclude<ExchangeResult, { kind: 'token' }>;

export function createTokenExchange(parts: {
  apps: AppStore;
  gate: RelayGate;
  assertions: UserAssertions;
  idTokens: IdTokens;
  vault: TokenVault;
  narrowed: NarrowedTokens;
  grants: Pick<GrantStore, 'load'>;
  publicHref: string;
  clock: () => number;
}): TokenExchange {
  const { apps, gate, assertions, idTokens, vault, narrowed, grants, publicHref, clock } = parts;

  const refuseProof = (caller: RelayCaller, proof: 'userAssertion' | 'idToken'): Refusal => {
    gate.count(caller, { route: 'token:exchange' }, proof);
    return invalidSubject();
  };

  const userOf = async (caller: RelayCaller, request: ExchangeRequest): Promise<RelaySubject | Refusal> => {
    const { subjectToken, subjectTokenType } = request;
    switch (subjectTokenType) {
      case SUBJECT_TOKEN_TYPES.assertion: {
        const id = await assertions.verify(subjectToken, caller.token);
        return id === undefined
          ? refuseProof(caller, 'userAssertion')
          : gate.loadSubject({ kind: 'user', id, proven: true });
      }
      case SUBJECT_TOKEN_TYPES.idToken: {
        const id = await idTokens.userOf(subjectToken);
        return id === undefined ? refuseProof(caller, 'idToken') : gate.loadSubject({ kind: 'user', id, proven: true });
      }
      case SUBJECT_TOKEN_TYPES.user:
        return gate.loadSubject({ kind: 'user', id: subjectToken, proven: false });
      default:
        return refuse('invalid_request', `Give one of these as subject_token_type: ${TYPES}.`);
    }
  };

  const appOf = ({ audience, resource }: ExchangeRequest, { token }: RelayCaller): ConnectedApp | Refusal => {
    const usable = apps.list().filter((app) => !app.disabled);
    const matching = usable.filter(
      (app) =>
        (audience === undefined || app.id === audience) && (resource === undefined || isResourceOf(app, resource)),
    );
    const isAmbiguous = audience === undefined && matching.length > 1;
    const candidates = isAmbiguous ? matching.filter(({ id }) => token.apps.includes(id)) : matching;
    const [app] = candidates;
    if (app && candidates.length === 1) return app;
    return refuse('invalid_target', 'Name one connected app: its id as audience, or its API base URL as resource.');
  };

  /** The access token with every granted scope. */
  const wholeToken = async (userId: string, app: ConnectedApp): Promise<ExchangeResult> => {
    const result = await vault.accessToken(userId, app);
    switch (result.kind) {
      case 'token': {
        if (result.dpopKey !== undefined) return refuse('invalid_target', BOUND);
        const stored = await grants.load(userId, app.id);
        const expiresAt =
          stored && 'grant' in stored && stored.grant.accessToken === result.accessToken
            ? stored.grant.expiresAt
            : undefined;
        return issued(
          { userId, app: app.id, accessToken: result.accessToken, scopes: result.scopes },
          expiresAt,
          clock(),
        );
      }
      case 'not_connected':
        return refuse('invalid_target', `The user has not connected this app. Connect it at ${connectUrl(app)}`);
      case 'reconnect_needed':
        return refuse('invalid_target', `${TROUBLE_WORDS[result.cause]} The user connects again at ${connectUrl(app)}`);
      case 'still_refused':
        return unavailable(30);
      case 'unavailable':
        return unavailable(result.retryAfterSeconds);
    }
  };

  const connectUrl = (app: ConnectedApp) => `${publicHref}/connections/${app.id}`;

  const narrowerToken = async (
    caller: RelayCaller,
    subject: RelaySubject,
    app: ConnectedApp,
    scopes: readonly string[],
  ): Promise<ExchangeResult> => {
    const result = await narrowed.accessToken(subject.id, app, scopes);
    if (result.kind === 'narrowed') {
      const { accessToken, expiresAt } = result;
      return issued({ userId: subject.id, app: app.id, accessToken, scopes: result.scopes }, expiresAt, clock());
    }
    if (result.kind === 'unavailable') return unavailable(result.retryAfterSeconds);
    if (result.kind === 'no_grant') return wholeRefusal(await wholeToken(subject.id, app));
    const access = { route: 'token:exchange' as const, app: app.id, subject, unnarrowed: true };
    const decision = gate.decide(caller, access);
    if (decision.allowed) return wholeToken(subject.id, app);
    gate.count(caller, access, decision.rule);
    return refuse('invalid_scope', decision.detail);
  };

  const tokenFor = async (
    caller: RelayCaller,
    subject: RelaySubject,
    app: ConnectedApp,
    scopes: readonly string[] | undefined,
  ): Promise<ExchangeResult> => {
    const whole = scopes === undefined ? await wholeToken(subject.id, app) : undefined;
    if (whole || scopes === undefined) return whole ?? unavailable(5);
    const stored = await grants.load(subject.id, app.id);
    if (stored && 'grant' in stored && stored.grant.dpopKey !== undefined) return refuse('invalid_target', BOUND);
    const granted = stored && 'grant' in stored ? stored.grant.scopes : undefined;
    if (granted && !scopes.every((scope) => granted.includes(scope))) {
      return refuse('invalid_scope', 'Ask only for scopes that the user has granted.');
    }
    const isWhole = !granted || granted.every((scope) => scopes.includes(scope));
    return isWhole ? wholeToken(subject.id, app) : narrowerToken(caller, subject, app, scopes);
  };

  return {
    async exchange(caller, request) {
      const idToken = request.subjectTokenType === SUBJECT_TOKEN_TYPES.idToken;
      const access = { route: 'token:exchange' as const, idToken };
      const first = gate.decide(caller, access);
      if (!first.allowed) {
        gate.count(caller, access, first.rule);
        return policyRefusal(first.rule, first.detail);
      }
      const subject = await userOf(caller, request);
      if (!isSubject(subject)) return subject;
      const app = appOf(request, caller);
      if ('error' in app || 'description' in app) return app;
      const full = { ...access, app: app.id, subject };
      const decision = gate.decide(caller, full);
      if (!decision.allowed) {
        gate.count(caller, full, decision.rule);
        return policyRefusal(decision.rule, decision.detail);
      }
      const result = await tokenFor(caller, subject, app, request.scopes);
      gate.count(caller, full, result.kind === 'token' ? 'answered' : 'failed');
      return result;
    },
  };
}

/** A token bound to our key (RFC 9449) is of no use to the service. */
const BOUND = 'The provider binds the access tokens of this app to Gatehouse. Let the relay make the call instead.';
const TYPES = Object.values(SUBJECT_TOKEN_TYPES).join(', ');

function isSubject(value: RelaySubject | Refusal): value is RelaySubject {
  return value.kind === 'user' || value.kind === 'service_account';
}

/** True if the resource (RFC 8707) is the app's API base URL or below it. */
function isResourceOf(app: ConnectedApp, resource: string): boolean {
  if (app.apiBaseUrl === undefined) return false;
  const [base, url] = [URL.parse(app.apiBaseUrl), URL.parse(resource)];
  if (!base || !url || url.hash !== '' || url.origin !== base.origin) return false;
  const path = base.pathname.replace(/\/+$/, '');
  return url.pathname === path || url.pathname === `${path}/` || url.pathname.startsWith(`${path}/`);
}

function issued(
  facts: { userId: string; app: string; accessToken: string; scopes: readonly string[] },
  expiresAt: number | undefined,
  now: number,
): ExchangeResult {
  const expiresInSeconds = expiresAt === undefined ? undefined : Math.max(0, Math.floor((expiresAt - now) / 1000));
  return { kind: 'token', ...facts, expiresInSeconds };
}

function refuse(error: ExchangeError, description: string): Refusal {
  return { kind: 'refused', error, description };
}

function invalidSubject(): Refusal {
  return refuse('invalid_request', 'The subject_token is not valid, has expired, or has another audience.');
}

function unavailable(retryAfterSeconds: number): Refusal {
  return { kind: 'unavailable', description: 'The provider is unavailable. Try again later.', retryAfterSeconds };
}

/** Without a grant to narrow, the vault gives the reason. If it has a token by now, the client retries. */
function wholeRefusal(result: ExchangeResult): ExchangeResult {
  return result.kind === 'token' ? unavailable(1) : result;
}

/** RFC 8693 section 2.2.2: `invalid_request` for a subject that policy refuses, `invalid_target` for a target. */
function policyRefusal(rule: RelayRule, description: string): Refusal {
  if (rule === 'apps') return refuse('invalid_target', description);
  if (rule === 'users' || rule === 'assertUser' || rule === 'acceptIdTokens') {
    return refuse('invalid_request', description);
  }
  return refuse('unauthorized_client', description);
}
