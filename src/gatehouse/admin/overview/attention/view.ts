/** The JSON of what needs attention. */
import { z } from 'zod';

/**
 * The kinds of items. Several items of one kind are one group: its text is their number with these words, and it links
 * to their list, a path below `/admin`. The kinds without words have one item at most.
 */
export const GROUPS = {
  connections_reconnect_needed: {
    path: '/connections?health=reconnect_needed',
    words: 'apps have connections that need reconnecting',
  },
  connections_unverified: {
    path: '/connections?health=unverified',
    words: 'apps have unverified connections',
  },
  app_unusable: { path: '/connected-apps', words: 'apps cannot be used: their callback URL is missing' },
  app_unreadable: { path: '/connected-apps', words: 'apps have data that cannot be opened' },
  app_check_failed: { path: '/connected-apps', words: 'apps did not pass their check' },
  client_secret: { path: '/connected-apps', words: 'client secrets are old, or expire soon' },
  relay_token_expiring: { path: '/relay-tokens?state=expiring', words: 'relay tokens expire' },
  admin_token_expiring: { path: '/admin-tokens', words: 'admin tokens expire' },
  webhook_failing: { path: '/webhooks', words: 'webhooks are failing' },
  bin_quota: undefined,
  bin_service_failing: undefined,
  bin_data_old: undefined,
  encryption_key_old: undefined,
} as const;

type AttentionKind = keyof typeof GROUPS;

export const attentionJson = z.object({
  kind: z.enum(Object.keys(GROUPS) as [AttentionKind, ...AttentionKind[]]),
  severity: z
    .enum(['critical', 'warning'])
    .describe('critical: something does not work; warning: something will soon stop working'),
  count: z.int().describe('the number of items of this kind'),
  text: z.string(),
  detail: z.string().nullable().describe('the reason, or the names of the worst items'),
  since: z.iso.datetime().nullable(),
  expiresAt: z.iso.datetime().nullable().describe('when the first item of this kind expires or expired'),
  path: z.string().describe('the page for it, below /admin'),
  action: z.string().describe('the label of its button'),
});

export type Attention = z.output<typeof attentionJson>;

/** `name` tells the item from others of its kind, if there can be others. */
export type AttentionItem = Omit<Attention, 'count' | 'expiresAt'> & { name?: string; expiresAt?: string | null };
