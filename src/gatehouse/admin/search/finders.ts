/** What the search of the administration looks through: each kind of record, how it is found, and where its page is. */
import type { MatchingOptions, MatchingPage } from '../../../shared/storage/matching-page.ts';
import { ADMIN_TOKEN_PREFIX } from '../../admin-tokens/admin-tokens.ts';
import { CONNECT_LINK_PREFIX } from '../../grants/connect-links.ts';
import { RELAY_TOKEN_PREFIX } from '../../relay/relay-token.ts';
import { connectionFinder } from '../connections/find.ts';
import { matches } from '../listing.ts';
import type { AdminParts } from '../parts.ts';
import { displayName, splitId } from '../users/view.ts';
import { findersByReference, referenceIn } from './by-reference.ts';
import { type Find, type Finder, isAddress, isOneOf, MAX_HITS } from './finder.ts';

/** Bounds the work where administrators have created very many. */
const MAX_READ = 2_000;

export function finders(parts: AdminParts): readonly Finder[] {
  const { users, sessions, grants, connectedApps, relay, webhooks, adminTokens } = parts;
  const { apps } = connectedApps;
  const listed = (path: string) => (q: string) => `/admin/${path}?q=${encodeURIComponent(q)}`;
  const nowhere = () => undefined;
  const { bySignIn, byAuditEntry } = findersByReference(parts);

  const findConnection = connectionFinder(grants.connections);

  const byUser: Find = async (q) => {
    const { items } = await users.store.search({ q, after: undefined, limit: MAX_HITS + 1 });
    return items.map(({ user: { id, name, email, subject } }) => ({
      id,
      name: displayName({ name, email }) ?? subject,
      detail: (name === undefined ? undefined : email) ?? null,
      path: `/admin/users/${encodeURIComponent(id)}`,
      exact: isOneOf(q, id, name, email, subject),
    }));
  };

  const byConnection: Find = async (q) => {
    const found = isAddress(q) ? undefined : await findConnection(q);
    if (!found) return [];
    const { userId, connection } = found;
    const user = await users.store.find(userId);
    const name = apps.find(connection.app)?.name ?? connection.app;
    const detail = user?.email ?? user?.name ?? userId;
    const path = `/admin/users/${encodeURIComponent(userId)}`;
    return [{ id: connection.id ?? q, name, detail, path, exact: true }];
  };

  const bySession: Find = async (q) => {
    const { userId, rest: ref } = splitId(q);
    const open = ref === '' || isAddress(q) ? [] : await sessions.ofUsers.list(userId);
    return open
      .filter((session) => session.ref === ref)
      .map(({ user, browser }) => ({
        id: q,
        name: browser ?? 'Session',
        detail: user.email ?? user.name ?? userId,
        path: `/admin/users/${encodeURIComponent(userId)}`,
        exact: true,
      }));
  };

  const byApp: Find = async (q) =>
    apps
      .list()
      .filter(({ id, name }) => matches(q, id, name))
      .slice(0, MAX_HITS + 1)
      .map(({ id, name }) => ({
        id,
        name,
        detail: id,
        path: `/admin/connected-apps/${encodeURIComponent(id)}`,
        exact: isOneOf(q, id, name),
      }));

  /** Of records that administrators create: by id, with its prefix or without, and by text in them. */
  const byText =
    <T extends { id: string }>(about: {
      records: { page: (options: MatchingOptions<T>) => Promise<MatchingPage<T>> };
      prefix?: string;
      nameOf: (item: T) => string;
      detailOf?: (item: T) => string;
      pathOf: (id: string) => string;
    }): Find =>
    async (q) => {
      const { records, prefix = '', nameOf, detailOf, pathOf } = about;
      const wanted = prefix !== '' && q.startsWith(prefix) ? q.slice(prefix.length) : q;
      const filter = (item: T) => matches(wanted, item.id, nameOf(item));
      const { items } = await records.page({ limit: MAX_HITS + 1, maxRead: MAX_READ, filter });
      return items.map((item) => ({
        id: item.id,
        name: nameOf(item),
        detail: detailOf?.(item) ?? `${prefix}${item.id}`,
        path: pathOf(item.id),
        exact: wanted === item.id || isOneOf(q, nameOf(item)),
      }));
    };

  /** The pages of the menu, by their names. */
  const byPage: Find = async (q) =>
    parts.pages.menu
      .flatMap(({ tabs }) => tabs)
      .filter(({ label }) => matches(q, label))
      .slice(0, MAX_HITS + 1)
      .map(({ path, href, label }) => ({
        id: path,
        name: label,
        detail: null,
        path: href ?? `/admin/${path}`,
        exact: isOneOf(q, label),
      }));

  return [
    { kind: 'sign_in', title: 'Sign-ins and errors', find: bySignIn, list: listed('sign-ins') },
    { kind: 'user', title: 'Users', find: byUser, list: listed('users') },
    { kind: 'connected_app', title: 'Connected apps', find: byApp, list: listed('connected-apps') },
    { kind: 'connection', title: 'Connections', find: byConnection, list: nowhere },
    { kind: 'session', title: 'Sessions', find: bySession, list: nowhere },
    {
      kind: 'relay_token',
      title: 'Relay tokens',
      find: byText({
        records: relay.tokens,
        prefix: RELAY_TOKEN_PREFIX,
        nameOf: ({ name }) => name,
        pathOf: (id) => `/admin/relay-tokens/${id}`,
      }),
      list: listed('relay-tokens'),
    },
    {
      kind: 'service_account',
      title: 'Service accounts',
      find: byText({ records: relay.accounts, nameOf: ({ name }) => name, pathOf: listed('service-accounts') }),
      list: listed('service-accounts'),
    },
    {
      kind: 'webhook',
      title: 'Webhooks',
      find: byText({ records: webhooks.registered, nameOf: ({ url }) => url, pathOf: (id) => `/admin/webhooks/${id}` }),
      list: listed('webhooks'),
    },
    {
      kind: 'connect_link',
      title: 'Connect links',
      find: byText({
        records: grants.links,
        prefix: CONNECT_LINK_PREFIX,
        nameOf: ({ app, relayToken }) => `${app}, by ${relayToken.name}`,
        detailOf: ({ userId }) => userId,
        pathOf: listed('connect-links'),
      }),
      list: listed('connect-links'),
    },
    {
      kind: 'admin_token',
      title: 'Admin tokens',
      find: byText({
        records: adminTokens,
        prefix: ADMIN_TOKEN_PREFIX,
        nameOf: ({ name }) => name,
        pathOf: listed('admin-tokens'),
      }),
      list: listed('admin-tokens'),
    },
    {
      kind: 'audit_entry',
      title: 'Audit',
      find: byAuditEntry,
      list: (q) => `/admin/audit?text=${encodeURIComponent(referenceIn(q) ?? q)}`,
    },
    { kind: 'page', title: 'Pages', find: byPage, list: nowhere },
  ];
}
