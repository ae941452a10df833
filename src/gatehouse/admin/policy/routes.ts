/** Tests a relay call without making it: the verdict of each rule, and the call in three languages. */
import type { Request } from 'express';
import { z } from 'zod';
import { normalAddress } from '../../../shared/config/networks.ts';
import { AppError } from '../../../shared/errors.ts';
import { queryField } from '../../../shared/http/body.ts';
import { UNKNOWN_ADDRESS } from '../../../shared/http/client-address.ts';
import { operation } from '../../../shared/http/operation.ts';
import type { FieldFault } from '../../../shared/pages/page-data.ts';
import type { AppRoute } from '../../../shared/provider/app-routes.ts';
import { cutText } from '../../../shared/text.ts';
import { routesOf } from '../../connected-apps/route-match.ts';
import {
  decide,
  RELAY_SCOPES,
  RELAY_WORDS,
  type RelayCall,
  type RelayScope,
  type RelaySubject,
  verdicts,
} from '../../relay/policy.ts';
import type { RelayToken } from '../../relay/relay-token.ts';
import { findNamedUser } from '../named-user.ts';
import type { AdminPageData } from '../page.ts';
import type { AdminParts } from '../parts.ts';
import { throwUnknown } from '../resource.ts';
import { conditionsOf } from './conditions.ts';
import { exampleCalls } from './example-calls.ts';

declare module '../../../shared/pages/page-data.ts' {
  interface PageData {
    'admin/policy/page': AdminPageData & {
      /** The relay token in the address. If the address has none, the form selects one of `tokens`. */
      token: { id: string; name: string } | undefined;
      tokens: readonly { id: string; name: string }[];
      words: typeof RELAY_WORDS;
      apps: readonly { id: string; name: string }[];
      /** Of all apps, since the form selects one of them. */
      routeNames: readonly string[];
      accounts: readonly { id: string; name: string }[];
      form: { values: Record<string, string>; faults: readonly FieldFault[]; dropped?: readonly string[] };
      explained: Explained | undefined;
    };
  }
}

const PROOFS = ['assertion', 'id_token', 'none'] as const;

const questionSchema = z.strictObject({
  relayToken: z.string().max(64).describe('its id'),
  scope: z.enum(RELAY_SCOPES),
  app: z.string().max(40).optional(),
  route: z.string().max(40).optional().describe('for api:call: the name of the route'),
  user: z.string().trim().max(320).optional().describe('its id or e-mail address'),
  serviceAccount: z.string().max(64).optional(),
  address: z.string().max(64).describe('where the call comes from'),
  proof: z
    .enum(PROOFS)
    .default('assertion')
    .describe('the proof of the user; an ID token requires acceptIdTokens, and none requires assertUser'),
  unnarrowed: z
    .boolean()
    .default(false)
    .describe('token exchange: fewer scopes are requested than granted, and the provider issues no narrower token'),
});

type Question = z.output<typeof questionSchema>;

const checkJson = z.object({
  check: z.string().describe('what the rule requires'),
  verdict: z.enum(['passed', 'failed', 'not_applicable']),
  detail: z.string().optional().describe('what to change; only if it failed'),
});

const explainedJson = z.object({
  allowed: z.boolean().describe('allowed by every rule of the policy, and the question names what the call needs'),
  rule: z.string().optional().describe('the first rule that refuses; none if the question is incomplete'),
  detail: z.string().optional().describe('what to change, or what the question does not name'),
  rules: z.array(checkJson.extend({ rule: z.string() })).describe('in the order in which they are applied'),
  conditions: z.array(checkJson).describe('what the call needs in addition to the policy'),
  user: z.string().nullable().describe('the id of the user'),
  examples: z
    .object({
      curl: z.string(),
      typescript: z.string(),
      python: z.string(),
      assertion: z
        .object({ cookie: z.string(), shell: z.string() })
        .optional()
        .describe(
          'set if the call needs ASSERTION: the shell command that gets it with the session cookie of a browser',
        ),
    })
    .describe(
      'the call, with the relay token in the environment variable RELAY_TOKEN and a proof in ASSERTION or ID_TOKEN',
    ),
});

type Explained = z.output<typeof explainedJson>;

export function policyRoutes({ relay, connectedApps, grants, users, pages, publicUrl, clock }: AdminParts) {
  const { tokens, accounts, gate } = relay;
  const { apps } = connectedApps;
  const { connections } = grants;

  /** @throws AppError `not_found` */
  const tokenOf = async (id: string): Promise<RelayToken> => (await tokens.find(id)) ?? throwUnknown('relay token');

  /** @throws AppError `invalid_request` for an e-mail address that does not belong to exactly one user */
  const userOf = async ({ user }: Question): Promise<string | undefined> => {
    if (!user) return undefined;
    const result = await findNamedUser(users.store, user);
    if ('id' in result) return result.id;
    throw new AppError('invalid_request', {
      detail: result.fault,
      faults: [{ pointer: '#/user', rule: 'unknown_user', detail: result.fault }],
    });
  };

  const subjectOf = async (
    { serviceAccount, proof }: Question,
    user: string | undefined,
  ): Promise<RelaySubject | undefined> => {
    if (serviceAccount !== undefined) return gate.loadSubject({ kind: 'service_account', id: serviceAccount });
    return user === undefined ? undefined : gate.loadSubject({ kind: 'user', id: user, proven: proof !== 'none' });
  };

  /** Returns the route with this name; undefined if the app does not declare it. */
  const routeOf = (appId: string | undefined, name: string | undefined): AppRoute | undefined => {
    const app = appId === undefined ? undefined : apps.find(appId);
    return app && routesOf(app).find((route) => route.name === name);
  };

  const callOf = async (question: Question, user: string | undefined): Promise<RelayCall> => {
    const { scope, proof } = question;
    const address = addressOf(question);
    const isExchange = scope === 'token:exchange';
    const usesApp = scope !== 'bin:read';
    const subject = usesApp ? await subjectOf(question, user) : undefined;
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
      unnarrowed: isExchange && question.unnarrowed,
      idToken: isExchange && proof === 'id_token',
    };
  };

  const explain = async (question: Question): Promise<Explained> => {
    const token = await tokenOf(question.relayToken);
    const user = await userOf(question);
    const call = await callOf(question, user);
    const { scope, proof, unnarrowed, serviceAccount } = question;
    const route = routeOf(call.app, question.route);
    const decision = decide(token, call);
    const incomplete = decision.allowed ? incompleteText(call, question) : undefined;
    return {
      ...(incomplete === undefined ? decision : { allowed: false, detail: incomplete }),
      rules: verdicts(token, call),
      conditions: await conditionsOf({ apps, connections }, call, question.route),
      user: user ?? null,
      examples: exampleCalls(publicUrl.href, { scope, app: call.app, route, user, serviceAccount, proof, unnarrowed }),
    };
  };

  const page = pages.page('admin/policy/page', async ({ req }) => {
    const token = req.params.id === undefined ? undefined : await tokenOf(String(req.params.id));
    const question = questionOf(req, token?.id);
    const isComplete = question.relayToken !== '' && question.address !== '';
    const explained = isComplete ? await explain(question).catch(faultOf) : undefined;
    const faults = explained && 'field' in explained ? [explained] : [];
    const {
      relayToken,
      scope,
      app = '',
      route = '',
      user = '',
      serviceAccount = '',
      proof,
      unnarrowed,
      address,
    } = question;
    const allItems = { limit: Number.POSITIVE_INFINITY };
    const [{ items }, { items: serviceAccounts }] = await Promise.all([tokens.page(allItems), accounts.page(allItems)]);
    return {
      title: token ? `Test a call: ${token.name}` : 'Test a call',
      faults,
      token,
      tokens: items.map(({ id, name }) => ({ id, name })),
      words: RELAY_WORDS,
      apps: apps.list().map(({ id, name }) => ({ id, name })),
      routeNames: [
        ...new Set([
          ...apps
            .threadApps()
            .flatMap(routesOf)
            .map(({ name }) => name),
          ...(route ? [route] : []),
        ]),
      ],
      accounts: serviceAccounts.map(({ id, name }) => ({ id, name })),
      form: {
        values: {
          token: relayToken,
          scope,
          app,
          user,
          serviceAccount,
          route,
          proof,
          // The default is the address of the administrator.
          address: queryField(req, 'address') === undefined ? req.context.address : address,
          unnarrowed: unnarrowed ? 'yes' : '',
        },
        faults,
      },
      explained: explained && 'field' in explained ? undefined : explained,
    };
  });

  return {
    page: page.handler,

    explain: operation(
      {
        summary: 'Explain how each rule judges a relay call, whether it would be allowed, and how to make it',
        body: questionSchema,
        response: explainedJson,
      },
      ({ body }) => explain(body),
    ),
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

/** @throws AppError `invalid_request` for text that is not an IP address, because a rule would accept it */
function addressOf({ address }: Question): string {
  const normalized = address === UNKNOWN_ADDRESS ? address : normalAddress(address);
  if (normalized !== undefined) return normalized;
  const detail = 'Enter an IP address, such as 203.0.113.5.';
  throw new AppError('invalid_request', { detail, faults: [{ pointer: '#/address', rule: 'invalid', detail }] });
}

/** Reads the question. @param relayToken the id in the address of the page; undefined if the form contains it */
function questionOf(req: Request, relayToken: string | undefined): Question {
  const field = (name: string) => queryField(req, name)?.trim() || undefined;
  const user = field('user');
  const scope = RELAY_SCOPES.find((candidate) => candidate === field('scope')) ?? ('threads:read' satisfies RelayScope);
  return {
    relayToken: relayToken ?? field('token') ?? '',
    scope,
    app: field('app'),
    route: field('route'),
    user: user && cutText(user, 320),
    serviceAccount: field('serviceAccount'),
    address: field('address') ?? '',
    proof: PROOFS.find((proof) => proof === field('proof')) ?? 'assertion',
    unnarrowed: field('unnarrowed') === 'yes',
  };
}

const UNKNOWN_TOKEN: FieldFault = { field: 'token', text: 'This relay token no longer exists. Choose another one.' };

function faultOf(error: unknown): FieldFault {
  if (!(error instanceof AppError)) throw error;
  if (error.code === 'not_found') return UNKNOWN_TOKEN;
  const [fault] = error.faults ?? [];
  if (fault) return { field: fault.pointer.slice(2), text: fault.detail };
  throw error;
}
