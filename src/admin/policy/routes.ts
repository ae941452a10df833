/** Answers "what would happen if": what the relay's policy says of a call that was not made, by page and by API. */
import type { RequestHandler } from 'express';
import { z } from 'zod';
import type { AppStore } from '../../connected-apps/app-store.ts';
import { AppError } from '../../errors.ts';
import { queryField } from '../../http/body.ts';
import { type DescribedHandler, operation } from '../../http/operation.ts';
import type { FieldFault } from '../../pages/page-data.ts';
import type { Pages } from '../../pages/pages.ts';
import type { RelayGate } from '../../relay/gate.ts';
import {
  decide,
  RELAY_SCOPES,
  RELAY_WORDS,
  type RelayDecision,
  type RelayScope,
  type RelaySubject,
} from '../../relay/policy.ts';
import type { RelayTokens } from '../../relay/relay-token.ts';

declare module '../../pages/page-data.ts' {
  interface PageData {
    'admin/policy': {
      page: SignedInFrame;
      tokens: readonly { id: string; name: string }[];
      words: typeof RELAY_WORDS;
      apps: readonly { id: string; name: string }[];
      form: { values: Record<string, string>; faults: readonly FieldFault[]; dropped?: readonly string[] };
      decision: RelayDecision | undefined;
    };
  }
}

export interface PolicyRoutes {
  page: RequestHandler;
  explain: DescribedHandler;
}

const PROOFS = ['assertion', 'id_token', 'none'] as const;

const question = z.strictObject({
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

type Question = z.output<typeof question>;

const decision = z.object({ allowed: z.boolean(), rule: z.string().optional(), detail: z.string().optional() });

export function policyRoutes(parts: {
  tokens: Pick<RelayTokens, 'find' | 'page'>;
  apps: AppStore;
  gate: Pick<RelayGate, 'loadSubject'>;
  pages: Pages;
  clock: () => number;
}): PolicyRoutes {
  const { tokens, apps, gate, pages, clock } = parts;

  const subjectOf = async ({ user, serviceAccount, proof }: Question): Promise<RelaySubject | undefined> => {
    if (serviceAccount !== undefined) return gate.loadSubject({ kind: 'service_account', id: serviceAccount });
    if (user === undefined) return undefined;
    return gate.loadSubject({ kind: 'user', id: user, proven: proof !== 'none' });
  };

  const explained = async (asked: Question): Promise<RelayDecision> => {
    const token = await tokens.find(asked.relayToken);
    if (!token) throw new AppError('not_found', { detail: 'There is no relay token with this id.' });
    const { route, address } = asked;
    const isExchange = route === 'token:exchange';
    const exchange = { unnarrowed: isExchange && asked.unnarrowed, idToken: isExchange && asked.proof === 'id_token' };
    const forApp = route !== 'bin:read';
    const subject = forApp ? await subjectOf(asked) : undefined;
    // A service account belongs to one app, so that none has to be named.
    const app = asked.app ?? (subject?.kind === 'service_account' ? subject.app : undefined);
    return decide(token, { route, app: forApp ? app : undefined, subject, ...exchange, address, now: clock() });
  };

  return {
    async page(req, res) {
      const asked = askedOf(req);
      const complete = asked.relayToken !== '' && asked.address !== '';
      const { items: listed } = await tokens.page({ limit: Number.POSITIVE_INFINITY });
      const decision = complete ? await explained(asked).catch(unknownToken) : undefined;
      const faults = decision === 'unknown' ? [UNKNOWN_TOKEN] : [];
      const { relayToken, route, app = '', user = '', proof, unnarrowed, address } = asked;
      const values = { token: relayToken, route, app, user, proof, unnarrowed: unnarrowed ? 'yes' : '', address };
      pages.send(res, 'admin/policy', {
        page: pages.signedInFrame(req, 'What would happen if', faults),
        tokens: listed.map(({ id, name }) => ({ id, name })),
        words: RELAY_WORDS,
        apps: apps.threadApps().map(({ id, name }) => ({ id, name })),
        form: { values, faults },
        decision: decision === 'unknown' ? undefined : decision,
      });
    },

    explain: operation(
      {
        summary: 'Say whether a relay call would be allowed, or which rule refuses it',
        body: question,
        answer: decision,
      },
      ({ body }) => explained(body),
    ),
  };
}

function askedOf(req: Parameters<RequestHandler>[0]): Question {
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
