/** Tokens that end, and webhooks that fail. */
import { relativeTime } from '../../../../shared/pages/relative-time.ts';
import { DAY_MS, isoTime } from '../../../../shared/time.ts';
import { stateOf } from '../../credential.ts';
import type { AdminParts } from '../../parts.ts';
import type { Attention } from './view.ts';

/** The newest that are looked at. */
const MAX_LOOKED_AT = 500;
/** How long an expired token is named: a service that still needs it has failed by then. */
const EXPIRED_MS = 7 * DAY_MS;

export function tokensIn({ relay, adminTokens, clock }: Pick<AdminParts, 'relay' | 'adminTokens' | 'clock'>) {
  const endingOf = <T extends { id: string; name: string; expiresAt: number }>(
    items: readonly T[],
    about: { kind: 'relay_token_ending' | 'admin_token_ending'; words: string; pathOf: (id: string) => string },
  ): Attention[] =>
    items
      .filter((token) => stateOf(token, clock()) !== 'active' && token.expiresAt > clock() - EXPIRED_MS)
      .map(({ id, name, expiresAt }) => {
        const isOver = stateOf({ expiresAt }, clock()) === 'expired';
        return {
          kind: about.kind,
          severity: isOver ? 'bad' : 'notice',
          text: `${about.words} ${name} ${isOver ? 'expired' : 'expires'} ${relativeTime(expiresAt, clock())}`,
          detail: null,
          since: null,
          path: about.pathOf(id),
          action: 'Open',
        };
      });

  return async (): Promise<Attention[]> => {
    const [ofServices, ofAdministrators] = await Promise.all([
      relay.tokens.page({ limit: MAX_LOOKED_AT }),
      adminTokens.page({ limit: MAX_LOOKED_AT }),
    ]);
    return [
      ...endingOf(ofServices.items, {
        kind: 'relay_token_ending',
        words: 'Relay token',
        pathOf: (id) => `/relay-tokens/${id}`,
      }),
      ...endingOf(ofAdministrators.items, {
        kind: 'admin_token_ending',
        words: 'Admin token',
        pathOf: () => '/admin-tokens',
      }),
    ];
  };
}

export function webhooksIn({ webhooks }: Pick<AdminParts, 'webhooks'>) {
  return async (): Promise<Attention[]> => {
    const { items } = await webhooks.registered.page({ limit: MAX_LOOKED_AT });
    const enabled = items.filter((one) => one.enabled);
    const healths = await Promise.all(enabled.map(({ id }) => webhooks.healths.of(id)));
    return enabled.flatMap(({ id, url }, at): Attention[] => {
      const { failingSince, last } = healths[at] ?? {};
      if (failingSince === undefined) return [];
      return [
        {
          kind: 'webhook_failing',
          severity: 'bad',
          text: `Webhook ${new URL(url).host} is failing`,
          detail: last ? `Last response: ${last.result}` : null,
          since: isoTime(failingSince),
          path: `/webhooks/${id}`,
          action: 'Open',
        },
      ];
    });
  };
}
