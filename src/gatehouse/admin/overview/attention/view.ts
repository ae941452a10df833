/** The JSON of items in the attention list. */
import { z } from 'zod';

/** The kinds of items. If a kind has too many, an item with these words links to the list below `/admin`. */
export const KINDS = {
  connections_reconnect_needed: {
    path: '/connections?health=reconnect_needed',
    words: 'apps with connections that need reconnecting',
  },
  connections_unverified: {
    path: '/connections?health=unverified',
    words: 'apps with unverified connections',
  },
  app_unusable: { path: '/connected-apps', words: 'apps that cannot be used' },
  app_unreadable: { path: '/connected-apps', words: 'apps that cannot be opened' },
  app_check_failed: { path: '/connected-apps', words: 'apps with problems' },
  client_secret: { path: '/connected-apps', words: 'client secrets to renew' },
  relay_token_expiring: { path: '/relay-tokens?state=expiring', words: 'relay tokens that expire' },
  admin_token_expiring: { path: '/admin-tokens', words: 'admin tokens that expire' },
  webhook_failing: { path: '/webhooks', words: 'failing webhooks' },
  bin_quota: { path: '/bin', words: 'quotas' },
  bin_service_failing: { path: '/bin', words: 'services' },
  bin_data_old: { path: '/bin', words: 'data sets' },
  encryption_key_old: { path: '/keys', words: 'keys' },
} as const;

export type AttentionKind = keyof typeof KINDS;

export const attentionJson = z.object({
  kind: z.enum(Object.keys(KINDS) as [AttentionKind, ...AttentionKind[]]),
  severity: z
    .enum(['bad', 'notice'])
    .describe('bad: something does not work; notice: something will soon stop working'),
  text: z.string(),
  detail: z.string().nullable(),
  since: z.iso.datetime().nullable(),
  path: z.string().describe('the page for it, below /admin'),
  action: z.string().describe('the label of its button'),
});

export type Attention = z.output<typeof attentionJson>;
