/** The policy check, by page and by API: which rule would refuse a relay call, without making it. */
import type { Request } from 'express';
import { z } from 'zod';
import { AppError } from '../../errors.ts';
import { queryField } from '../../http/body.ts';
import { operation } from '../../http/operation.ts';
import type { FieldFault } from '../../pages/page-data.ts';
import {
  decide,
  RELAY_SCOPES,
  RELAY_WORDS,
  type RelayDecision,
  type RelayScope,
  type RelaySubject,
} from '../../relay/policy.ts';
import type { AdminParts } from '../admin.ts';
import type { AdminPageData } from '../page.ts';
import { throwUnknown } from '../resource.ts';

declare module '../../pages/page-data.ts' {
  interface PageData {
    'admin/policy': AdminPageData & {
      tokens: readonly { id: string; name: string }[];
      words: typeof RELAY_WORDS;
      apps: readonly { id: string; name: string }[];
      form: { values: Record<string, string>; faults: readonly FieldFault[]; dropped?: readonly string[] };
      decision: RelayDecision | undefined;
    };
  }
}

const PROOFS = ['assertion', 'id_token', 'none'] as const;

const questionSchema = z.strictObject({
  relayToken: z.string().max(64).describe('its id'),
  route: z.enum(RELAY_SCOPES),
  app: z.string().max(40).optional(),
  user: z.string().max(64).optional(),
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

const decisionJson = z.object({ allowed: z.boolean(), rule: z.string().optional(), detail: z.string().optional() });

export function policyRoutes({ relay, connectedApps, pages, clock }: AdminParts) {
  const { tokens, gate } = relay;
  const { apps } = connectedApps;

  const subjectOf = async ({ user, serviceAccount, proof }: Question): Promise<RelaySubject | undefined> => {
    if (serviceAccount !== undefined) return gate.loadSubject({ kind: 'service_account', id: serviceAccount });
    if (user === undefined) return undefined;
    return gate.loadSubject({ kind: 'user', id: user, proven: proof !== 'none' });
  };

  const explain = async (question: Question): Promise<RelayDecision> => {
    const token = (await tokens.find(question.relayToken)) ?? throwUnknown('relay token');
    const { route, address, proof } = question;
    const isExchange = route === 'token:exchange';
    const forApp = route !== 'bin:read';
    const subject = forApp ? await subjectOf(question) : undefined;
    // A service account belongs to one app, so that none has to be named.
    const app = question.app ?? (subject?.kind === 'service_account' ? subject.app : undefined);
    return decide(token, {
      route,
      app: forApp ? app : undefined,
      subject,
      everyUser: route === 'connections:read' && subject === undefined,
      address,
      now: clock(),
      unnarrowed: isExchange && question.unnarrowed,
      idToken: isExchange && proof === 'id_token',
    });
  };

  const check = pages.page('admin/policy', async ({ req }) => {
    const question = questionOf(req);
    const isComplete = question.relayToken !== '' && question.address !== '';
    const decision = isComplete ? await explain(question).catch(unknownToken) : undefined;
    const faults = decision === 'unknown' ? [UNKNOWN_TOKEN] : [];
    const { relayToken, route, app = '', user = '', proof, unnarrowed, address } = question;
    const values = { token: relayToken, route, app, user, proof, unnarrowed: unnarrowed ? 'yes' : '', address };
    const { items } = await tokens.page({ limit: Number.POSITIVE_INFINITY });
    return {
      title: 'Policy check',
      faults,
      tokens: items.map(({ id, name }) => ({ id, name })),
      words: RELAY_WORDS,
      apps: apps.list().map(({ id, name }) => ({ id, name })),
      form: { values, faults },
      decision: decision === 'unknown' ? undefined : decision,
    };
  });

  return {
    page: check.handler,

    explain: operation(
      {
        summary: 'Say whether a relay call would be allowed, or which rule refuses it',
        body: questionSchema,
        response: decisionJson,
      },
      ({ body }) => explain(body),
    ),
  };
}

function questionOf(req: Request): Question {
  const field = (name: string) => queryField(req, name)?.trim() || undefined;
  const route = RELAY_SCOPES.find((one) => one === field('route')) ?? ('threads:read' satisfies RelayScope);
  return {
    relayToken: field('token') ?? '',
    route,
    app: field('app'),
    user: field('user'),
    serviceAccount: undefined,
    address: field('address') ?? '',
    proof: PROOFS.find((one) => one === field('proof')) ?? 'assertion',
    unnarrowed: field('unnarrowed') === 'yes',
  };
}

const UNKNOWN_TOKEN: FieldFault = { field: 'token', text: 'There is no such relay token any more.' };

function unknownToken(error: unknown): 'unknown' {
  if (error instanceof AppError && error.code === 'not_found') return 'unknown';
  throw error;
}
