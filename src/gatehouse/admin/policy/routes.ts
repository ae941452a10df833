/** Tests a relay call without making it, by the page "Test a call" and by the API. */
import type { Request } from 'express';
import { AppError } from '../../../shared/errors.ts';
import { queryField } from '../../../shared/http/body.ts';
import { operation } from '../../../shared/http/operation.ts';
import type { FieldFault } from '../../../shared/pages/page-data.ts';
import { cutText, distinctNames } from '../../../shared/text.ts';
import type { ThreadApp } from '../../connected-apps/current-apps.ts';
import { routesOf } from '../../connected-apps/route-match.ts';
import { RELAY_SCOPES, RELAY_WORDS, type RelayScope } from '../../relay/policy.ts';
import type { RelayToken } from '../../relay/relay-token.ts';
import type { AdminPageData } from '../page.ts';
import type { AdminParts } from '../parts.ts';
import { throwUnknown } from '../resource.ts';
import { createExplain, type Explained, explainedJson, PROOFS, type Question, questionSchema } from './explain.ts';

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

export function policyRoutes(parts: AdminParts) {
  const { tokens, accounts } = parts.relay;
  const { apps } = parts.connectedApps;
  const { pages } = parts;
  const explainFor = createExplain(parts);

  /** @throws AppError `not_found` */
  const tokenOf = async (id: string): Promise<RelayToken> => (await tokens.find(id)) ?? throwUnknown('relay token');

  const explain = async (question: Question) => explainFor(await tokenOf(question.relayToken), question);

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
      userId = '',
      serviceAccount = '',
      proof,
      narrowingUnavailable,
      address,
    } = question;
    const allItems = { limit: Number.POSITIVE_INFINITY };
    const [{ items }, { items: serviceAccounts }] = await Promise.all([tokens.page(allItems), accounts.page(allItems)]);
    return {
      title: token ? `Test a call: ${token.name}` : 'Test a call',
      faults,
      token,
      tokens: distinctNames(items),
      words: RELAY_WORDS,
      apps: apps.named(),
      routeNames: [...new Set(declaredNames(apps.threadApps()).concat(route || []))],
      accounts: distinctNames(serviceAccounts),
      form: {
        values: {
          token: relayToken,
          scope,
          app,
          user: userId,
          serviceAccount,
          route,
          proof,
          // The default is the address of the administrator.
          address: queryField(req, 'address') === undefined ? req.context.address : address,
          narrowingUnavailable: narrowingUnavailable ? 'yes' : '',
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
        summary: 'Explain how each rule judges a relay call, and whether it would be allowed',
        body: questionSchema,
        response: explainedJson,
      },
      ({ body }) => explain(body),
    ),
  };
}

const declaredNames = (apps: readonly ThreadApp[]) => apps.flatMap(routesOf).map(({ name }) => name);

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
    userId: user && cutText(user, 320),
    serviceAccount: field('serviceAccount'),
    address: field('address') ?? '',
    proof: PROOFS.find((proof) => proof === field('proof')) ?? 'assertion',
    narrowingUnavailable: field('narrowingUnavailable') === 'yes',
  };
}

const UNKNOWN_TOKEN: FieldFault = { field: 'token', text: 'This relay token no longer exists. Choose another one.' };

function faultOf(error: unknown): FieldFault {
  if (!(error instanceof AppError)) throw error;
  if (error.code === 'not_found') return UNKNOWN_TOKEN;
  const [fault] = error.faults ?? [];
  const field = fault?.pointer.slice(2);
  // A parameter of the URL, unlike a member of JSON, is "user".
  if (fault && field) return { field: field === 'userId' ? 'user' : field, text: fault.detail };
  throw error;
}
