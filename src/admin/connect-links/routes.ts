/** Connect links in the administration: list and revoke, by page and by API. */
import { z } from 'zod';
import { isoTime } from '../../time.ts';
import type { AdminParts } from '../admin.ts';
import type { AdminListData } from '../page.ts';
import { createResource } from '../resource.ts';

declare module '../../pages/page-data.ts' {
  interface PageData {
    'admin/connect-links': AdminListData & { links: readonly z.output<typeof linkJson>[] };
  }
}

const linkJson = z.object({
  id: z.string(),
  user: z.string(),
  app: z.string(),
  scopes: z.array(z.string()).readonly(),
  returnUrl: z.string().nullable(),
  relayToken: z.object({ id: z.string(), name: z.string() }).describe('that created it'),
  used: z.boolean(),
  createdAt: z.iso.datetime(),
  expiresAt: z.iso.datetime(),
});

export function connectLinkRoutes(parts: AdminParts) {
  const { pages } = parts;
  const { links } = parts.grants;

  const resource = createResource(parts, {
    name: 'connect link',
    records: links,
    nameOf: ({ app, userId }) => `${app} for ${userId}`,
    textsOf: ({ id, userId, app, relayToken }) => [id, userId, app, relayToken.name],
    schema: linkJson,
    toJson: async ({ userId: user, returnUrl = null, createdAt, expiresAt, ...link }) => ({
      ...link,
      user,
      returnUrl,
      used: !(await links.isOpen(user, link.id)),
      createdAt: isoTime(createdAt),
      expiresAt: isoTime(expiresAt),
    }),
  });

  const revocation = resource.removal({
    summary: 'Revoke a connect link: nothing can be connected with it',
    event: 'connect_link.revoked',
    notice: 'Connect link revoked. Nothing can be connected with it.',
    work: links.revoke,
  });

  const list = pages.page('admin/connect-links', async ({ req }) => {
    const { items, next, q } = await resource.listedFor(req);
    return { title: 'Connect links', links: items, next, q };
  });

  return {
    page: list.handler,
    revokeByForm: revocation.byForm,
    list: resource.list,
    one: resource.one,
    revoke: revocation.byApi,
  };
}
