/** The finders of the search of the administration, in the order of the results. */
import { connectionFinder } from '../connections/find.ts';
import { matches } from '../listing.ts';
import type { AdminParts } from '../parts.ts';
import { displayName, splitId } from '../users/view.ts';
import { findersByReference, referenceIn } from './by-reference.ts';
import { equalsOneOf, type Find, type Finder, isAddress, listWith, MAX_RESULTS } from './finder.ts';

/** Returns all finders. @param resourceFinders the finders of resources with stored records */
export function finders(parts: AdminParts, resourceFinders: readonly Finder[]): readonly Finder[] {
  const { users, sessions, grants, connectedApps } = parts;
  const { apps } = connectedApps;
  const noList = () => undefined;
  const { findSignIns, findAuditEntries } = findersByReference(parts);

  const findById = connectionFinder(grants.connections);

  const findUsers: Find = async (q) => {
    const { items } = await users.store.search({ q, after: undefined, limit: MAX_RESULTS + 1 });
    return items.map(({ user: { id, name, email, subject } }) => ({
      id,
      name: displayName({ name, email }) ?? subject,
      detail: (name === undefined ? undefined : email) ?? null,
      path: `/admin/users/${encodeURIComponent(id)}`,
      exact: equalsOneOf(q, id, name, email, subject),
    }));
  };

  const findConnections: Find = async (q) => {
    const result = isAddress(q) ? undefined : await findById(q);
    if (!result) return [];
    const { userId, connection } = result;
    const user = await users.store.find(userId);
    const name = apps.nameOf(connection.app);
    const detail = user?.email ?? user?.name ?? userId;
    const id = connection.id ?? q;
    return [{ id, name, detail, path: `/admin/connections/${encodeURIComponent(id)}`, exact: true }];
  };

  const findSessions: Find = async (q) => {
    const { userId, rest: ref } = splitId(q);
    const openSessions = ref === '' || isAddress(q) ? [] : await sessions.ofUsers.list(userId);
    return openSessions
      .filter((session) => session.ref === ref)
      .map(({ user, browser }) => ({
        id: q,
        name: browser ?? 'Session',
        detail: user.email ?? user.name ?? userId,
        path: `/admin/users/${encodeURIComponent(userId)}`,
        exact: true,
      }));
  };

  const findApps: Find = async (q) =>
    apps
      .list()
      .filter(({ id, name }) => matches(q, id, name))
      .slice(0, MAX_RESULTS + 1)
      .map(({ id, name }) => ({
        id,
        name,
        detail: id,
        path: `/admin/connected-apps/${encodeURIComponent(id)}`,
        exact: equalsOneOf(q, id, name),
      }));

  /** Finds the API reference, and pages of the menu by their names. */
  const findPages: Find = async (q) =>
    [
      ...parts.pages.menu
        .flatMap(({ tabs }) => tabs)
        .map(({ path, label }) => ({ id: path, path: path === '' ? '/admin' : `/admin/${path}`, labels: [label] })),
      { id: 'docs', path: '/docs', labels: ['API reference', 'Docs'] },
    ]
      .filter(({ labels }) => matches(q, ...labels))
      .slice(0, MAX_RESULTS + 1)
      .map(({ id, path, labels: [name = '', ...others] }) => ({
        id,
        name,
        detail: null,
        path,
        exact: equalsOneOf(q, name, ...others),
      }));

  return [
    { kind: 'sign_in', title: 'Sign-ins and errors', find: findSignIns, list: listWith('sign-ins') },
    { kind: 'user', title: 'Users', find: findUsers, list: listWith('users') },
    { kind: 'connected_app', title: 'Connected apps', find: findApps, list: listWith('connected-apps') },
    { kind: 'connection', title: 'Connections', find: findConnections, list: noList },
    { kind: 'session', title: 'Sessions', find: findSessions, list: noList },
    ...resourceFinders,
    {
      kind: 'audit_entry',
      title: 'Audit',
      find: findAuditEntries,
      list: (q) => `/admin/audit?q=${encodeURIComponent(referenceIn(q) ?? q)}`,
    },
    { kind: 'page', title: 'Pages', find: findPages, list: noList },
  ];
}
