/** Connect links in the administration: list and revoke, by page and by API. */
import { z } from 'zod';
import { isoTime } from '../../../shared/time.ts';
import { CONNECT_LINK_PREFIX } from '../../grants/connect-links.ts';
import type { Columns } from '../columns.ts';
import type { AdminPageOfList } from '../page.ts';
import type { AdminParts } from '../parts.ts';
import { createResource } from '../resource.ts';
import { displayName } from '../users/view.ts';

declare module '../../../shared/pages/page-data.ts' {
  interface PageData {
    'admin/connect-links/list': AdminPageOfList & {
      links: readonly LinkRow[];
    };
  }
}

const linkJson = z.object({
  id: z.string(),
  userId: z.string(),
  app: z.string(),
  scopes: z.array(z.string()).readonly(),
  returnUrl: z.string().nullable(),
  relayToken: z.object({ id: z.string(), name: z.string() }).describe('the relay token that created it'),
  used: z.boolean(),
  createdAt: z.iso.datetime(),
  expiresAt: z.iso.datetime(),
});

type LinkView = z.output<typeof linkJson>;

type LinkRow = LinkView & { appName: string; userName: string };

const COLUMNS: Columns<LinkView, LinkRow> = [
  { name: 'ID', csv: ({ id }) => id },
  {
    name: 'User',
    cell: ({ userId, userName }) => ({ path: `users/${encodeURIComponent(userId)}`, text: userName, title: userId }),
  },
  { name: 'App', isBelow: true, csv: ({ app }) => app, cell: ({ appName }) => ({ text: appName }) },
  { name: 'User ID', csv: ({ userId }) => userId },
  {
    name: 'Created by',
    label: 'By',
    csv: ({ relayToken }) => relayToken.name,
    cell: ({ relayToken: { id, name } }) => ({ path: `relay-tokens/${encodeURIComponent(id)}`, text: name }),
  },
  { name: 'Scopes', csv: ({ scopes }) => scopes.join(' ') },
  {
    name: 'State',
    width: 'state',
    csv: ({ used }) => (used ? 'used' : 'open'),
    cell: ({ used }) => (used ? { status: 'idle', words: 'Used' } : { status: 'good', words: 'Open' }),
  },
  {
    name: 'Created',
    width: 'time',
    isWideOnly: true,
    label: 'Created',
    sorted: 'always',
    csv: ({ createdAt }) => createdAt,
    cell: ({ createdAt }) => ({ time: createdAt }),
  },
  {
    name: 'Expires',
    width: 'time',
    label: 'Expires',
    csv: ({ expiresAt }) => expiresAt,
    cell: ({ expiresAt }) => ({ time: expiresAt }),
  },
];

export function connectLinkRoutes(parts: AdminParts) {
  const { pages, users } = parts;
  const { apps } = parts.connectedApps;
  const { links } = parts.grants;

  const resource = createResource(parts, {
    name: 'connect link',
    records: links,
    nameOf: ({ app, userId }) => `${app} for ${userId}`,
    searchResultOf: ({ app, relayToken, userId }) => ({ name: `${app}, by ${relayToken.name}`, detail: userId }),
    prefix: CONNECT_LINK_PREFIX,
    textsOf: ({ id, userId, app, relayToken }) => [`${CONNECT_LINK_PREFIX}${id}`, userId, app, relayToken.name],
    schema: linkJson,
    toJson: async ({ userId, returnUrl = null, createdAt, expiresAt, ...link }) => ({
      ...link,
      userId,
      returnUrl,
      used: !(await links.isOpen(userId, link.id)),
      createdAt: isoTime(createdAt),
      expiresAt: isoTime(expiresAt),
    }),
  });

  const revocation = resource.removal({
    summary: 'Revoke a connect link: it can no longer be used',
    event: 'connect_link.revoked',
    verb: 'Revoke',
    consequences: ['The link can no longer be used. The service can create another one.'],
    notice: (count) => `${count === 1 ? 'Connect link' : `${count} connect links`} revoked.`,
    work: links.revoke,
  });

  const withNames = async (link: LinkView): Promise<LinkRow> => {
    const user = await users.store.find(link.userId);
    const appName = apps.nameOf(link.app);
    return { ...link, appName, userName: displayName(user) ?? link.userId };
  };

  const listPage = pages.page('admin/connect-links/list', async ({ req, res }) => {
    const result = await resource.pageFor(req, res, COLUMNS);
    if (!result) return undefined;
    return { title: 'Connect links', links: await Promise.all(result.items.map(withNames)), list: result.list };
  });

  return {
    page: listPage.handler,
    revokePage: revocation.page,
    revokeByForm: revocation.byForm,
    finder: resource.finder,
    list: resource.list,
    read: resource.read,
    revoke: revocation.byApi,
  };
}
