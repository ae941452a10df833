/** Explains how each rule of a relay token judges a call, without making it. */
import { z } from 'zod';
import { normalAddress } from '../../../shared/config/networks.ts';
import { AppError } from '../../../shared/errors.ts';
import { UNKNOWN_ADDRESS } from '../../../shared/http/client-address.ts';
import type { AppRoute } from '../../../shared/provider/app-routes.ts';
import { routesOf } from '../../connected-apps/route-match.ts';
import { checkRules, decide, RELAY_SCOPES, type RelayCall, type RelaySubject } from '../../relay/policy.ts';
import type { RelayToken } from '../../relay/relay-token.ts';
import { findNamedUser } from '../named-user.ts';
import type { AdminParts } from '../parts.ts';
import { conditionsOf } from './conditions.ts';
import { type Examples, exampleCalls } from './example-calls.ts';

export const PROOFS = ['assertion', 'id_token', 'none'] as const;

export const questionSchema = z.strictObject({
  relayToken: z.string().max(64).describe('its id'),
  scope: z.enum(RELAY_SCOPES),
  app: z.string().max(40).optional(),
  route: z.string().max(40).optional().describe('for api:call: the name of the route'),
  userId: z.string().trim().max(320).optional().describe('the id of a user, or the e-mail address'),
  serviceAccount: z.string().max(64).optional(),
  address: z.string().max(64).describe('where the call comes from'),
  proof: z
    .enum(PROOFS)
    .default('assertion')
    .describe('the proof of the user; an ID token requires acceptIdTokens, and none requires assertUser'),
  narrowingUnavailable: z
    .boolean()
    .default(false)
    .describe('token exchange: fewer scopes are requested than granted, and the provider issues no narrower token'),
});

export type Question = z.output<typeof questionSchema>;

const checkJson = z.object({
  check: z.string().describe('what the rule requires'),
  result: z.enum(['passed', 'failed', 'not_applicable']),
  detail: z.string().optional().describe('what to change; only if it failed'),
});

export const explainedJson = z.object({
  allowed: z.boolean().describe('allowed by every rule of the policy, and the question names what the call needs'),
  rule: z.string().optional().describe('the first rule that refuses; none if the question is incomplete'),
  detail: z.string().optional().describe('what to change, or what the question does not name'),
  rules: z.array(checkJson.extend({ rule: z.string() })).describe('in the order in which they are applied'),
  conditions: z.array(checkJson).describe('what the call needs in addition to the policy'),
  userId: z.string().nullable().describe('the id of the user'),
});

/** The page also has the call in each language, which the API leaves out: its code may change. */
export type Explained = z.output<typeof explainedJson> & { examples: Examples };

/** @throws AppError `invalid_request` for a wrong user or address */
export function createExplain({ relay, connectedApps, grants, users, publicUrl, clock }: AdminParts) {
  const { gate } = relay;
  const { apps } = connectedApps;
  const { connections } = grants;

  /** @throws AppError `invalid_request` for an e-mail address that does not belong to exactly one user */
  const findUserId = async ({ userId: entered }: Question): Promise<string | undefined> => {
    if (!entered) return undefined;
    const result = await findNamedUser(users.store, entered);
    if ('id' in result) return result.id;
    throw new AppError('invalid_request', {
      detail: result.fault,
      faults: [{ pointer: '#/userId', rule: 'unknown_user', detail: result.fault }],
    });
  };

  const subjectOf = async (
    { serviceAccount, proof }: Question,
    userId: string | undefined,
  ): Promise<RelaySubject | undefined> => {
    if (serviceAccount !== undefined) return gate.loadSubject({ kind: 'service_account', id: serviceAccount });
    return userId === undefined ? undefined : gate.loadSubject({ kind: 'user', id: userId, proven: proof !== 'none' });
  };

  /** Returns the route with this name; undefined if the app does not declare it. */
  const routeOf = (appId: string | undefined, name: string | undefined): AppRoute | undefined => {
    const app = appId === undefined ? undefined : apps.find(appId);
    return app && routesOf(app).find((route) => route.name === name);
  };

  const callOf = async (question: Question, userId: string | undefined): Promise<RelayCall> => {
    const { scope, proof } = question;
    const address = addressOf(question);
    const isExchange = scope === 'token:exchange';
    const usesApp = scope !== 'bin:read';
    const subject = usesApp ? await subjectOf(question, userId) : undefined;
    // A service account belongs to one app, which the form need not name.
    const app = question.app ?? (subject?.kind === 'service_account' ? subject.app : undefined);
    return {
      scope,
      route: scope === 'api:call' ? routeOf(app, question.route) : undefined,
      app: usesApp ? app : undefined,
      subject,
      everyUser: scope === 'connections:read' && subject === undefined,
      address,
      now: clock(),
      fullScope: isExchange && question.narrowingUnavailable,
      idToken: isExchange && proof === 'id_token',
    };
  };

  return async (token: RelayToken, question: Question): Promise<Explained> => {
    refuseTwoSubjects(question);
    const userId = await findUserId(question);
    const call = await callOf(question, userId);
    const { scope, proof, narrowingUnavailable, serviceAccount } = question;
    const route = routeOf(call.app, question.route);
    const decision = decide(token, call);
    const incomplete = decision.allowed ? incompleteText(call, question) : undefined;
    return {
      ...(incomplete === undefined ? decision : { allowed: false, detail: incomplete }),
      rules: checkRules(token, call),
      conditions: await conditionsOf({ apps, connections }, call, question.route),
      userId: userId ?? null,
      examples: exampleCalls(publicUrl.href, {
        ...{ scope, app: call.app, route, userId, serviceAccount, proof, narrowingUnavailable },
      }),
    };
  };
}

/** Says what the question must name for a call of its kind; undefined if nothing is missing. */
function incompleteText({ scope, app, subject }: RelayCall, { route }: Question): string | undefined {
  if (scope === 'api:call' && app === undefined) return 'Incomplete: name a connected app.';
  const isForEither = scope === 'threads:read' || (scope === 'api:call' && route !== undefined);
  if (isForEither && !subject) return 'Incomplete: name a user or a service account.';
  const isForUsers = scope === 'token:exchange' || scope === 'connect_links:create';
  return isForUsers && subject?.kind !== 'user' ? 'Incomplete: name a user.' : undefined;
}

/** @throws AppError `invalid_request` for a user and a service account, which the call itself would be refused with */
function refuseTwoSubjects({ scope, userId, serviceAccount }: Question): void {
  if (scope === 'bin:read' || !userId || !serviceAccount) return;
  const detail = 'Name a user or a service account, not both.';
  throw new AppError('invalid_request', { detail, faults: [{ pointer: '#/serviceAccount', rule: 'several', detail }] });
}

/** @throws AppError `invalid_request` for text that is not an IP address, because a rule would accept it */
function addressOf({ address }: Question): string {
  const normalized = address === UNKNOWN_ADDRESS ? address : normalAddress(address);
  if (normalized !== undefined) return normalized;
  const detail = 'Enter an IP address, such as 203.0.113.5.';
  throw new AppError('invalid_request', { detail, faults: [{ pointer: '#/address', rule: 'invalid', detail }] });
}
