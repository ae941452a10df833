/** Attention for expiring tokens and failing webhooks. */
import { relativeTime } from '../../../../shared/pages/relative-time.ts';
import { DAY_MS, isoTime } from '../../../../shared/time.ts';
import { stateOf } from '../../credential.ts';
import type { AdminParts } from '../../parts.ts';
import type { AttentionItem } from './view.ts';

/** The number of newest tokens and webhooks that are read. */
const MAX_READ = 500;
/** How long an expired token is listed. A service that still needs it will have failed by then. */
const EXPIRED_MS = 7 * DAY_MS;

export function tokenAttention({ relay, adminTokens, clock }: Pick<AdminParts, 'relay' | 'adminTokens' | 'clock'>) {
  const expiryAttention = <T extends { id: string; name: string; expiresAt: number }>(
    items: readonly T[],
    {
      kind,
      words,
      pathOf,
    }: { kind: 'relay_token_expiring' | 'admin_token_expiring'; words: string; pathOf: (id: string) => string },
  ): AttentionItem[] =>
    items
      .filter((token) => stateOf(token, clock()) !== 'active' && token.expiresAt > clock() - EXPIRED_MS)
      .toSorted((left, right) => left.expiresAt - right.expiresAt)
      .map(({ id, name, expiresAt }) => {
        const isExpired = stateOf({ expiresAt }, clock()) === 'expired';
        const when = relativeTime(expiresAt, clock());
        return {
          kind,
          severity: isExpired ? 'critical' : 'warning',
          text: `${words} ${name} ${isExpired ? 'expired' : 'expires'} ${when}`,
          name: `${name} ${when}`,
          detail: null,
          since: null,
          expiresAt: isoTime(expiresAt),
          path: pathOf(id),
          action: 'Open',
        };
      });

  return async (): Promise<AttentionItem[]> => {
    const [ofServices, ofAdministrators] = await Promise.all([
      relay.tokens.page({ limit: MAX_READ }),
      adminTokens.page({ limit: MAX_READ }),
    ]);
    return [
      ...expiryAttention(ofServices.items, {
        kind: 'relay_token_expiring',
        words: 'Relay token',
        pathOf: (id) => `/relay-tokens/${id}`,
      }),
      ...expiryAttention(ofAdministrators.items, {
        kind: 'admin_token_expiring',
        words: 'Admin token',
        pathOf: () => '/admin-tokens',
      }),
    ];
  };
}

export function webhookAttention({ webhooks }: Pick<AdminParts, 'webhooks'>) {
  return async (): Promise<AttentionItem[]> => {
    const { items } = await webhooks.registered.page({ limit: MAX_READ });
    const enabled = items.filter((webhook) => !webhook.disabled);
    const healths = await Promise.all(enabled.map(({ id }) => webhooks.healths.of(id)));
    return enabled.flatMap(({ id, url }, index): AttentionItem[] => {
      const { failingSince, last: lastAttempt } = healths[index] ?? {};
      if (failingSince === undefined) return [];
      return [
        {
          kind: 'webhook_failing',
          severity: 'critical',
          text: `Webhook ${new URL(url).host} is failing`,
          name: new URL(url).host,
          detail: lastAttempt ? `Last response: ${lastAttempt.status ?? lastAttempt.error}` : null,
          since: isoTime(failingSince),
          path: `/webhooks/${id}`,
          action: 'Open',
        },
      ];
    });
  };
}
