/** Owns who calls the relay: the relay token in the header and nowhere else (R82), and the user or service account behind the call. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { AppError } from '../errors.ts';
import { addHeaders } from '../http/answer-head.ts';
import type { ClientAddress } from '../http/client-address.ts';
import type { RateLimits } from '../http/rate-limit.ts';
import {
  decide,
  type RelayCall,
  type RelayDecision,
  type RelayRule,
  type RelayScope,
  type RelaySubject,
} from './policy.ts';
import { RELAY_TOKEN_PREFIX, type RelayToken, type RelayTokens } from './relay-token.ts';
import type { UserAssertions } from './user-assertion.ts';
import type { RelayUses, UseResult } from './uses.ts';

/** A service that has shown its relay token. */
export interface RelayCaller {
  token: RelayToken;
  address: string;
  requestId: string;
}

/** Whom a service names or proves, before anything was asked of the store. */
export type RelayWhom =
  | { kind: 'user'; id: string; proven: boolean }
  | Extract<RelaySubject, { kind: 'service_account' }>;

export type RelayQuestion = Pick<RelayCall, 'route'> & Partial<Pick<RelayCall, 'app' | 'subject' | 'unnarrowed'>>;

export interface RelayGate {
  /**
   * Lets a service in by its relay token, and gives the answer its `RateLimit` headers.
   * @throws AppError `relay_token_invalid`, `rate_limited`
   */
  enter(req: IncomingMessage, res: ServerResponse): Promise<RelayCaller>;
  /** The same with the token's text, however it was sent; undefined where it is not valid. @throws AppError `rate_limited` */
  admit(text: string | undefined, req: IncomingMessage, res: ServerResponse): Promise<RelayCaller | undefined>;
  decide(caller: RelayCaller, question: RelayQuestion): RelayDecision;
  /** Notes a refusal and throws it. @throws AppError `insufficient_scope`, `not_allowed`, `relay_token_invalid` */
  require(caller: RelayCaller, question: RelayQuestion): void;
  /** Exactly one of the three headers. @throws AppError `invalid_request`, `not_allowed` */
  whom(req: IncomingMessage, caller: RelayCaller): Promise<RelayWhom>;
  /** The same with what is kept about a user. */
  subject(whom: RelayWhom): Promise<RelaySubject>;
  note(caller: RelayCaller, question: RelayQuestion, result: UseResult): void;
}

export function createRelayGate(parts: {
  tokens: RelayTokens;
  assertions: UserAssertions;
  uses: RelayUses;
  limits: RateLimits;
  /** False for a user whom an administrator has disabled. */
  mayBeServed: (userId: string) => Promise<boolean>;
  addressOf: ClientAddress;
  clock: () => number;
}): RelayGate {
  const { tokens, assertions, uses, limits, mayBeServed, addressOf, clock } = parts;

  const admit: RelayGate['admit'] = async (text, req, res) => {
    const address = addressOf(req);
    const token = text === undefined ? undefined : await tokens.verify(text);
    if (!token) {
      limits.take('guess', address);
      return undefined;
    }
    addHeaders(req, res, limits.headers('relay-token', limits.take('relay-token', token.id)));
    void tokens.noteUse(token.id, address);
    return { token, address, requestId: req.context.id };
  };

  const answer: RelayGate['decide'] = (caller, question) => {
    const { route, app, subject, unnarrowed = false } = question;
    return decide(caller.token, { route, app, subject, unnarrowed, address: caller.address, now: clock() });
  };

  const note: RelayGate['note'] = ({ token, address, requestId }, { route, app, subject }, result) => {
    uses.note({
      ...{ token: { id: token.id, name: token.name }, route, app, result, address, requestId },
      userId: subject?.kind === 'user' ? subject.id : undefined,
      serviceAccount: subject?.kind === 'service_account' ? subject.id : undefined,
    });
  };

  const provenUser = async (assertion: string, caller: RelayCaller): Promise<RelayWhom> => {
    const id = await assertions.verify(assertion, caller.token);
    if (id !== undefined) return { kind: 'user', id, proven: true };
    note(caller, { route: 'threads:read' }, 'userAssertion');
    throw refused('not_allowed', {
      detail:
        'Rule userAssertion: the user assertion is not ours, has ended, or is meant for somebody else. Get a new one.',
    });
  };

  return {
    admit,
    decide: answer,
    note,
    async subject(whom) {
      return whom.kind === 'user' ? { ...whom, disabled: !(await mayBeServed(whom.id)) } : whom;
    },
    async enter(req, res) {
      const { given, text } = bearerOf(req);
      const caller = await admit(text, req, res);
      if (!caller) throw invalidToken(given);
      return caller;
    },
    require(caller, question) {
      const decision = answer(caller, question);
      if (decision.allowed) return;
      note(caller, question, decision.rule);
      throw refusalOf(decision.rule, decision.detail, question.route);
    },
    async whom(req, caller) {
      const assertion = headerOf(req, 'gatehouse-user-assertion');
      const user = headerOf(req, 'gatehouse-user');
      const account = headerOf(req, 'gatehouse-service-account');
      if ([assertion, user, account].filter((value) => value !== undefined).length !== 1) throw oneSubject();
      if (assertion !== undefined) return provenUser(assertion, caller);
      const id = user ?? account ?? '';
      if (!ID.test(id)) throw oneSubject();
      return user === undefined ? { kind: 'service_account', id } : { kind: 'user', id, proven: false };
    },
  };
}

const ID = /^[A-Za-z0-9_-]{1,64}$/;

/**
 * What the header says (RFC 6750 section 2.1). `given` false: there is none at all. A token in the address is told to
 * everybody who logs addresses, so such a call is refused whatever its header holds.
 */
function bearerOf(req: IncomingMessage): { given: boolean; text: string | undefined } {
  const headers = req.headersDistinct.authorization ?? [];
  const [header = ''] = headers;
  const inAddress = req.url?.includes(RELAY_TOKEN_PREFIX) === true;
  const text = headers.length === 1 && !inAddress ? /^Bearer +([!-~]{1,200})$/i.exec(header)?.[1] : undefined;
  return { given: headers.length > 0, text };
}

function headerOf(req: IncomingMessage, name: string): string | undefined {
  const values = req.headersDistinct[name];
  if (values === undefined) return undefined;
  if (values.length > 1) throw oneSubject();
  return values[0];
}

/** Unknown, expired, revoked and malformed are told alike (R84). */
function invalidToken(given: boolean): AppError {
  return refused('relay_token_invalid', {
    detail: given
      ? 'Send a relay token that is valid, once, as "Authorization: Bearer gthr_…".'
      : 'Send a relay token as "Authorization: Bearer gthr_…".',
    headers: { 'WWW-Authenticate': given ? 'Bearer error="invalid_token"' : 'Bearer' },
  });
}

function oneSubject(): AppError {
  return refused('invalid_request', {
    detail: 'Say for whom: send exactly one of Gatehouse-User-Assertion, Gatehouse-User and Gatehouse-Service-Account.',
  });
}

/** What a refusing rule is towards the service: the token's end tells no more than an unknown token does. */
function refusalOf(rule: RelayRule, detail: string, scope: RelayScope): AppError {
  if (rule === 'expiresAt') return invalidToken(true);
  if (rule !== 'scopes' && rule !== 'apps') return refused('not_allowed', { detail });
  const challenge = `Bearer error="insufficient_scope"${rule === 'scopes' ? `, scope="${scope}"` : ''}`;
  return refused('insufficient_scope', { detail, headers: { 'WWW-Authenticate': challenge } });
}

function refused(
  code: 'relay_token_invalid' | 'insufficient_scope' | 'not_allowed' | 'invalid_request',
  options: { detail: string; headers?: Record<string, string> },
): AppError {
  return new AppError(code, options);
}
