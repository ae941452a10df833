/** Owns "what would happen if": the relay's own policy asked for a call that nobody has made, by page and by API. */
import type { RequestHandler } from 'express';
import { z } from 'zod';
import type { AppStore } from '../connected-apps/app-store.ts';
import { AppError } from '../errors.ts';
import { queryField } from '../http/body.ts';
import { type DescribedHandler, operation } from '../http/operation.ts';
import type { Pages } from '../http/pages.ts';
import { decide, RELAY_SCOPES, type RelayDecision, type RelayScope, type RelaySubject } from '../relay/policy.ts';
import type { RelayTokens } from '../relay/relay-token.ts';

declare module '../http/page-data.ts' {
  interface AdminPageData {
    'admin/policy': {
      page: SignedInFrame;
      tokens: readonly { id: string; name: string }[];
      apps: readonly { id: string; name: string }[];
      question: Question;
      decision: RelayDecision | undefined;
      fault: string | undefined;
    };
  }
}

export interface PolicyRoutes {
  page: RequestHandler;
  explain: DescribedHandler;
}

const question = z.strictObject({
  relayToken: z.string().max(64).describe('its id'),
  route: z.enum(RELAY_SCOPES),
  app: z.string().max(40).optional(),
  user: z.string().max(64).optional(),
  serviceAccount: z.string().max(64).optional(),
  address: z.string().max(64).describe('where the call comes from'),
  proof: z
    .enum(['assertion', 'none'])
    .default('assertion')
    .describe('whether the user is proven, or only named, which needs assertUser'),
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
  mayBeServed: (userId: string) => Promise<boolean>;
  pages: Pages;
  clock: () => number;
}): PolicyRoutes {
  const { tokens, apps, mayBeServed, pages, clock } = parts;

  const subjectOf = async ({ user, serviceAccount, proof }: Question): Promise<RelaySubject | undefined> => {
    if (serviceAccount !== undefined) return { kind: 'service_account', id: serviceAccount };
    if (user === undefined) return undefined;
    return { kind: 'user', id: user, proven: proof === 'assertion', disabled: !(await mayBeServed(user)) };
  };

  const explained = async (asked: Question): Promise<RelayDecision> => {
    const token = await tokens.find(asked.relayToken);
    if (!token) throw new AppError('not_found', { detail: 'There is no relay token with this id.' });
    const { route, app, address } = asked;
    const unnarrowed = route === 'token:exchange' && asked.unnarrowed;
    const forApp = route !== 'bin:read';
    const subject = forApp ? await subjectOf(asked) : undefined;
    return decide(token, { route, app: forApp ? app : undefined, subject, unnarrowed, address, now: clock() });
  };

  return {
    async page(req, res) {
      const asked = askedOf(req);
      const complete = asked.relayToken !== '' && asked.address !== '';
      const { tokens: listed } = await tokens.page({ limit: 200 });
      const answer = complete ? await explained(asked).catch(unknownToken) : undefined;
      pages.sendAdmin(res, 'admin/policy', {
        page: pages.signedInFrame(req, 'What would happen if'),
        tokens: listed.map(({ id, name }) => ({ id, name })),
        apps: apps.threadApps().map(({ id, name }) => ({ id, name })),
        question: asked,
        decision: typeof answer === 'string' ? undefined : answer,
        fault: typeof answer === 'string' ? answer : undefined,
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
    proof: field('proof') === 'none' ? 'none' : 'assertion',
    unnarrowed: field('unnarrowed') === 'yes',
  };
}

function unknownToken(error: unknown): string {
  if (error instanceof AppError && error.code === 'not_found') return 'There is no such relay token any more.';
  throw error;
}
