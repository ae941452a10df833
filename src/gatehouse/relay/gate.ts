/** Authenticates services by their relay token, in the header only (R82), and authorizes their calls for a subject. */
import type { IncomingMessage } from 'node:http';
import { AppError } from '../../shared/errors.ts';
import { bearerOf } from '../../shared/http/bearer.ts';
import { decodedForms } from '../../shared/http/card-numbers.ts';
import type { RateLimits } from '../../shared/http/rate-limit.ts';
import type { CurrentApps } from '../connected-apps/current-apps.ts';
import type { UserStore } from '../users/user-store.ts';
import { decide, type RelayCall, type RelayRefusal, type RelayScope, type RelaySubject, SUBJECT_ID } from './policy.ts';
import { RELAY_TOKEN_PREFIX, type RelayToken, type RelayTokens } from './relay-token.ts';
import type { ServiceAccounts } from './service-account.ts';
import type { UseResult } from './stored-uses.ts';
import type { UserAssertions } from './user-assertion.ts';
import type { RelayUses } from './uses.ts';

/** A service, authenticated by its relay token. */
export interface RelayCaller {
  token: RelayToken;
  address: string;
  requestId: string;
}

/** The subject that a request names or proves, before it is looked up in the store. */
export type NamedSubject = { kind: 'user'; id: string; proven: boolean } | { kind: 'service_account'; id: string };

export type RelayAccess = Omit<RelayCall, 'address' | 'now'>;

export interface RelayGate {
  /**
   * Authenticates a service by the relay token in the header.
   * @throws AppError `relay_token_invalid`, `rate_limited` after too many invalid tokens from this address
   */
  authenticate(req: IncomingMessage): Promise<RelayCaller>;
  /**
   * Authenticates a service by the text of a token; returns undefined if it is invalid.
   * @param id the id that the token must have, if the caller sent one
   * @throws AppError `rate_limited` after too many invalid tokens from this address
   */
  authenticateToken(text: string | undefined, req: IncomingMessage, id?: string): Promise<RelayCaller | undefined>;
  /** Counts a call by its result. */
  count(caller: RelayCaller, access: RelayAccess, result: UseResult): void;
  /** Returns undefined if the policy allows the call; otherwise counts the refusal and returns it. */
  applyPolicy(caller: RelayCaller, access: RelayAccess): RelayRefusal | undefined;
  /**
   * Applies the policy, and counts a refusal.
   * @throws AppError `insufficient_scope`, `not_allowed`, `relay_token_invalid`, `not_found` if the policy refuses the
   *   call
   */
  authorize(caller: RelayCaller, access: RelayAccess): void;
  /** True if the policy allows the call. Counts nothing. */
  allows(caller: RelayCaller, access: RelayAccess): boolean;
  /** Reads the subject from exactly one of the three headers. @throws AppError `invalid_request`, `not_allowed` */
  readSubject(req: IncomingMessage, caller: RelayCaller, scope: RelayScope): Promise<NamedSubject>;
  /**
   * Returns the user whom the request names or an assertion proves, if there is one.
   * @param id the user id in the request
   * @throws AppError `invalid_request`, `not_allowed`
   */
  readUser(
    req: IncomingMessage,
    caller: RelayCaller,
    id: string | undefined,
    scope: RelayScope,
  ): Promise<NamedSubject | undefined>;
  /** Reads the stored state of the user or service account. */
  loadSubject(named: NamedSubject): Promise<RelaySubject>;
}

export function createRelayGate(parts: {
  tokens: RelayTokens;
  assertions: UserAssertions;
  uses: RelayUses;
  limits: Pick<RateLimits, 'take'>;
  users: Pick<UserStore, 'stateOf'>;
  accounts: Pick<ServiceAccounts, 'find'>;
  apps: Pick<CurrentApps, 'find'>;
  clock: () => number;
}): RelayGate {
  const { tokens, assertions, uses, limits, users, accounts, apps, clock } = parts;

  const authenticateToken: RelayGate['authenticateToken'] = async (text, req, expectedId) => {
    const { address, id: requestId } = req.context;
    const token = text === undefined ? undefined : await tokens.verify(text);
    if (!token || (expectedId !== undefined && expectedId !== token.id)) {
      limits.take('guess', address);
      return undefined;
    }
    void tokens.noteUse(token.id, address);
    return { token, address, requestId };
  };

  const count: RelayGate['count'] = ({ token, address, requestId }, { scope, app, subject }, result) => {
    uses.note({
      token: { id: token.id, name: token.name },
      scope,
      app,
      result,
      address,
      requestId,
      // Only existing ids are recorded, because a service may have sent a token in place of an id.
      userId: subject?.kind === 'user' && subject.state !== 'unknown' ? subject.id : undefined,
      serviceAccount: subject?.kind === 'service_account' && subject.app !== undefined ? subject.id : undefined,
    });
  };

  const applyPolicy: RelayGate['applyPolicy'] = (caller, access) => {
    const decision = decide(caller.token, { ...access, address: caller.address, now: clock() });
    if (decision.allowed) return undefined;
    count(caller, access, decision.rule);
    return decision;
  };

  /**
   * Returns the user of an assertion. An invalid one is counted as `userAssertion`: no rule of the policy refused it.
   */
  const provenUser = async (assertion: string, caller: RelayCaller, scope: RelayScope): Promise<NamedSubject> => {
    const id = await assertions.verify(assertion, caller.token.id);
    if (id !== undefined) return { kind: 'user', id, proven: true };
    count(caller, { scope }, 'userAssertion');
    throw new AppError('not_allowed', {
      detail:
        'Rule userAssertion: the user assertion is not ours, has expired, or has another audience. Get a new one.',
    });
  };

  return {
    async authenticate(req) {
      const { isSent, token } = bearerOf(req);
      const caller = await authenticateToken(hasTokenInUrl(req) ? undefined : token, req);
      if (!caller) throw invalidToken(isSent);
      return caller;
    },
    authenticateToken,
    count,
    applyPolicy,
    authorize(caller, access) {
      const refusal = applyPolicy(caller, access);
      if (refusal) throw errorOf(refusal, access.scope);
    },
    allows: ({ token, address }, access) => decide(token, { ...access, address, now: clock() }).allowed,
    async readSubject(req, caller, scope) {
      const assertion = headerOf(req, 'gatehouse-user-assertion');
      const user = headerOf(req, 'gatehouse-user');
      const account = headerOf(req, 'gatehouse-service-account');
      if ([assertion, user, account].filter((value) => value !== undefined).length !== 1) throw subjectError();
      if (assertion !== undefined) return provenUser(assertion, caller, scope);
      const id = user ?? account ?? '';
      if (!SUBJECT_ID.test(id)) {
        throw new AppError('invalid_request', { detail: user === undefined ? NO_ACCOUNT_ID : NO_USER_ID });
      }
      return user === undefined ? { kind: 'service_account', id } : { kind: 'user', id, proven: false };
    },
    async readUser(req, caller, id, scope) {
      const assertion = headerOf(req, 'gatehouse-user-assertion');
      if (assertion === undefined) return id === undefined ? undefined : { kind: 'user', id, proven: false };
      if (id === undefined) return provenUser(assertion, caller, scope);
      throw new AppError('invalid_request', { detail: 'Send either the user id or Gatehouse-User-Assertion.' });
    },
    async loadSubject(named) {
      const { kind, id } = named;
      if (kind === 'user') return { ...named, state: SUBJECT_ID.test(id) ? await users.stateOf(id) : 'unknown' };
      const account = await accounts.find(id);
      const apiBaseUrl = account && apps.find(account.app)?.apiBaseUrl;
      const hasMoved = apiBaseUrl !== undefined && new URL(apiBaseUrl).origin !== account?.platform;
      return { kind, id, app: account?.app, moved: hasMoved };
    },
  };
}

const NO_USER_ID =
  'Gatehouse-User is not a user id. Send the id from the page of the user or GET /session, not a name or an address. An administrator can look it up by e-mail address under "Test a call".';
const NO_ACCOUNT_ID = 'Gatehouse-Service-Account is not the id of a service account. Send the id from its page.';

/**
 * True if the URL contains a relay token. Such a request is refused even if its header is valid: URLs end up in logs.
 */
export function hasTokenInUrl({ url = '' }: IncomingMessage): boolean {
  return decodedForms(url).some((form) => form.includes(RELAY_TOKEN_PREFIX));
}

function headerOf(req: IncomingMessage, name: string): string | undefined {
  const values = req.headersDistinct[name];
  if (values === undefined) return undefined;
  if (values.length > 1) throw subjectError();
  return values[0];
}

/** Returns the error for unknown, expired, revoked and malformed tokens, which is the same for all (R84). */
function invalidToken(isSent: boolean): AppError {
  return new AppError('relay_token_invalid', {
    detail: isSent
      ? 'Send a relay token that is valid, once, as "Authorization: Bearer gthr_…".'
      : 'Send a relay token as "Authorization: Bearer gthr_…".',
    headers: { 'WWW-Authenticate': isSent ? 'Bearer error="invalid_token"' : 'Bearer' },
  });
}

function subjectError(): AppError {
  return new AppError('invalid_request', {
    detail:
      'Name the subject: send exactly one of Gatehouse-User-Assertion, Gatehouse-User and Gatehouse-Service-Account.',
  });
}

/** Returns the error for a refusal. An expired token gets the same response as an unknown one. */
function errorOf({ rule, detail, unknown }: RelayRefusal, scope: RelayScope): AppError {
  if (rule === 'expiresAt') return invalidToken(true);
  if (unknown) return new AppError('not_found', { detail });
  if (rule !== 'scopes' && rule !== 'apps' && rule !== 'routes') return new AppError('not_allowed', { detail });
  const challenge = `Bearer error="insufficient_scope"${rule === 'scopes' ? `, scope="${scope}"` : ''}`;
  return new AppError('insufficient_scope', { detail, headers: { 'WWW-Authenticate': challenge } });
}
