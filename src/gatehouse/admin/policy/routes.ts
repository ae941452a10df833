/** Tests a relay call by page and by API: what each rule says to it, without making it, and the call in three languages. */
import type { Request } from 'express';
import { z } from 'zod';
import { normalAddress } from '../../../shared/config/networks.ts';
import { AppError } from '../../../shared/errors.ts';
import { queryField } from '../../../shared/http/body.ts';
import { UNKNOWN_ADDRESS } from '../../../shared/http/client-address.ts';
import { operation } from '../../../shared/http/operation.ts';
import type { FieldFault } from '../../../shared/pages/page-data.ts';
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
import { userNamed } from '../named-user.ts';
import type { AdminPageData } from '../page.ts';
import type { AdminParts } from '../parts.ts';
import { throwUnknown } from '../resource.ts';
import { conditionsOf } from './conditions.ts';
import { exampleCalls } from './example-calls.ts';

declare module '../../../shared/pages/page-data.ts' {
  interface PageData {
    'admin/policy/page': AdminPageData & {
      /** On the page of this relay token; otherwise the form chooses one of `tokens`. */
      token: { id: string; name: string } | undefined;
      tokens: readonly { id: string; name: string }[];
      words: typeof RELAY_WORDS;
      apps: readonly { id: string; name: string }[];
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
  user: z.string().trim().max(320).optional().describe('its id or e-mail address'),
  serviceAccount: z.string().max(64).optional(),
  address: z.string().max(64).describe('where the call comes from'),
  proof: z
    .enum(PROOFS)
    .default('assertion')
    .describe('how the user is proven; an ID token needs acceptIdTokens, and no proof assertUser'),
  unnarrowed: z
    .boolean()
    .default(false)
    .describe('exchange: fewer scopes are asked for than granted, and the provider gives no narrower token'),
});

type Question = z.output<typeof questionSchema>;

const checked = z.object({
  check: z.string().describe('what the rule requires'),
  verdict: z.enum(['passed', 'failed', 'not_applicable']),
  detail: z.string().optional().describe('what to change; only if it failed'),
});

const explainedJson = z.object({
  allowed: z.boolean().describe('by every rule of the policy'),
  rule: z.string().optional().describe('the first rule that refuses'),
  detail: z.string().optional(),
  rules: z.array(checked.extend({ rule: z.string() })).describe('in the order in which they are applied'),
  conditions: z.array(checked).describe('what the call needs beside the policy'),
  user: z.string().nullable().describe('the id of the user'),
  examples: z
    .object({
      curl: z.string(),
      typescript: z.string(),
      python: z.string(),
      assertion: z
        .object({ cookie: z.string(), shell: z.string() })
        .optional()
        .describe('where ASSERTION is needed: how a shell gets it with the session cookie of a browser'),
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

  /** @throws AppError `invalid_request` for an e-mail address that does not name one user */
  const userOf = async ({ user }: Question): Promise<string | undefined> => {
    if (!user) return undefined;
    const named = await userNamed(users.store, user);
    if ('id' in named) return named.id;
    throw new AppError('invalid_request', {
      detail: named.fault,
      faults: [{ pointer: '#/user', rule: 'unknown_user', detail: named.fault }],
    });
  };

  const subjectOf = async (
    { serviceAccount, proof }: Question,
    user: string | undefined,
  ): Promise<RelaySubject | undefined> => {
    if (serviceAccount !== undefined) return gate.loadSubject({ kind: 'service_account', id: serviceAccount });
    return user === undefined ? undefined : gate.loadSubject({ kind: 'user', id: user, proven: proof !== 'none' });
  };

  const callOf = async (question: Question, user: string | undefined): Promise<RelayCall> => {
    const { scope, proof } = question;
    const address = addressOf(question);
    const isExchange = scope === 'token:exchange';
    const forApp = scope !== 'bin:read';
    const subject = forApp ? await subjectOf(question, user) : undefined;
    // A service account belongs to one app, so that none has to be named.
    const app = question.app ?? (subject?.kind === 'service_account' ? subject.app : undefined);
    return {
      scope,
      app: forApp ? app : undefined,
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
    return {
      ...decide(token, call),
      rules: verdicts(token, call),
      conditions: await conditionsOf({ apps, connections }, call),
      user: user ?? null,
      examples: exampleCalls(publicUrl.href, { scope, app: call.app, user, serviceAccount, proof, unnarrowed }),
    };
  };

  const check = pages.page('admin/policy/page', async ({ req }) => {
    const token = req.params.id === undefined ? undefined : await tokenOf(String(req.params.id));
    const question = questionOf(req, token?.id);
    const isComplete = question.relayToken !== '' && question.address !== '';
    const explained = isComplete ? await explain(question).catch(faultOf) : undefined;
    const faults = explained && 'field' in explained ? [explained] : [];
    const { relayToken, scope, app = '', user = '', serviceAccount = '', proof, unnarrowed, address } = question;
    const everything = { limit: Number.POSITIVE_INFINITY };
    const [{ items }, { items: ownAccounts }] = await Promise.all([tokens.page(everything), accounts.page(everything)]);
    return {
      title: token ? `Test a call: ${token.name}` : 'Test a call',
      faults,
      token,
      tokens: items.map(({ id, name }) => ({ id, name })),
      words: RELAY_WORDS,
      apps: apps.list().map(({ id, name }) => ({ id, name })),
      accounts: ownAccounts.map(({ id, name }) => ({ id, name })),
      form: {
        values: {
          token: relayToken,
          scope,
          app,
          user,
          serviceAccount,
          proof,
          // The administrator's own, as long as nothing is entered.
          address: queryField(req, 'address') === undefined ? req.context.address : address,
          unnarrowed: unnarrowed ? 'yes' : '',
        },
        faults,
      },
      explained: explained && 'field' in explained ? undefined : explained,
    };
  });

  return {
    page: check.handler,

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

/** @throws AppError `invalid_request` for what no call can come from, and a rule would judge all the same */
function addressOf({ address }: Question): string {
  const normal = address === UNKNOWN_ADDRESS ? address : normalAddress(address);
  if (normal !== undefined) return normal;
  const detail = 'Enter an IP address, such as 203.0.113.5.';
  throw new AppError('invalid_request', { detail, faults: [{ pointer: '#/address', rule: 'invalid', detail }] });
}

/** @param relayToken the id of the one that the page is about; otherwise the form names one */
function questionOf(req: Request, relayToken: string | undefined): Question {
  const field = (name: string) => queryField(req, name)?.trim() || undefined;
  const scope = RELAY_SCOPES.find((one) => one === field('scope')) ?? ('threads:read' satisfies RelayScope);
  return {
    relayToken: relayToken ?? field('token') ?? '',
    scope,
    app: field('app'),
    user: field('user')?.slice(0, 320),
    serviceAccount: field('serviceAccount'),
    address: field('address') ?? '',
    proof: PROOFS.find((one) => one === field('proof')) ?? 'assertion',
    unnarrowed: field('unnarrowed') === 'yes',
  };
}

const UNKNOWN_TOKEN: FieldFault = { field: 'token', text: 'There is no such relay token any more.' };

function faultOf(error: unknown): FieldFault {
  if (!(error instanceof AppError)) throw error;
  if (error.code === 'not_found') return UNKNOWN_TOKEN;
  const [fault] = error.faults ?? [];
  if (fault) return { field: fault.pointer.slice(2), text: fault.detail };
  throw error;
}
