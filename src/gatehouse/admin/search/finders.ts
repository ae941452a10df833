/** What the search of the administration looks through: each kind of record, how it is found, and where its page is. */

import type { MatchingOptions, MatchingPage } from '../../../shared/storage/matching-page.ts';
import { ADMIN_TOKEN_PREFIX } from '../../admin-tokens/admin-tokens.ts';
import { AUDIT_EVENTS, type AuditRecord } from '../../audit/kinds.ts';
import { CONNECT_LINK_PREFIX } from '../../grants/connect-links.ts';
import { RELAY_TOKEN_PREFIX } from '../../relay/relay-token.ts';
import type { SignInRecord } from '../../sign-in-record/attempt.ts';
import { connectionFinder } from '../connections/find.ts';
import { matches } from '../listing.ts';
import type { AdminParts } from '../parts.ts';
import { shownReference } from '../sign-ins/view.ts';
import { displayName, splitId } from '../users/view.ts';

export interface Hit {
  id: string;
  name: string;
  detail: string | null;
  /** Of its page, below the public address. */
  path: string;
  /** The text names this record as a whole, by an id, a name or an address. */
  exact: boolean;
}

/** @param q never empty. Returns one hit more than `MAX_HITS` if there are more. */
type Find = (q: string) => Promise<Hit[]>;

export interface Finder {
  kind: string;
  title: string;
  find: Find;
  /** The path of the list that the same text narrows; undefined if it does not find these there. */
  list: (q: string) => string | undefined;
}

export const MAX_HITS = 5;
/** Bounds the work where administrators have created very many. */
const MAX_READ = 2_000;
/** Of the newest audit entries; the page of the trail searches further back. */
const AUDIT_SEARCH_MS = 20;

const REFERENCE = /^[0-9a-f]{8}$/i;
/** A request id ends with the reference of the request. */
const REQUEST_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export function finders(parts: AdminParts): readonly Finder[] {
  const { users, sessions, grants, connectedApps, relay, webhooks, adminTokens, signInRecords, references, audit } =
    parts;
  const { apps } = connectedApps;
  const listed = (path: string) => (q: string) => `/admin/${path}?q=${encodeURIComponent(q)}`;
  const nowhere = () => undefined;

  const findConnection = connectionFinder(grants.connections);

  const referenceIn = (q: string) => (REQUEST_ID.test(q) ? q.slice(-8) : REFERENCE.test(q) ? q : undefined);

  const signInHit = (record: SignInRecord, exact: boolean): Hit => {
    const { id, app, email, name } = record;
    const detail = email ?? name ?? apps.find(app)?.name ?? app;
    return {
      id,
      name: `Sign-in ${shownReference(record)}`,
      detail,
      path: `/admin/sign-ins/${encodeURIComponent(id)}`,
      exact,
    };
  };

  /** By reference; or by an address that no user has. */
  const bySignIn: Find = async (q) => {
    if (isAddress(q)) {
      const [known, { items }] = await Promise.all([
        users.store.search({ q, after: undefined, limit: 1 }),
        signInRecords.page({ email: q, limit: MAX_HITS + 1 }),
      ]);
      return known.items.length > 0 ? [] : items.map((record) => signInHit(record, false));
    }
    const reference = referenceIn(q);
    if (reference === undefined) return [];
    const record = await signInRecords.find(reference);
    if (record) return [signInHit(record, true)];
    const problem = await references.find(reference);
    if (!problem) return [];
    const path = listed('sign-ins')(problem.reference);
    return [{ id: problem.reference, name: `Error ${problem.reference}`, detail: problem.code, path, exact: true }];
  };

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

  const auditHit = ({ id, at, event, actor, target }: AuditRecord, exact: boolean): Hit => {
    const instant = encodeURIComponent(at);
    const detail = [actor.name ?? actor.id, target?.name ?? target?.id]
      .filter((text) => text !== undefined)
      .join(' · ');
    const path = `/admin/audit?from=${instant}&to=${instant}`;
    return { id, name: AUDIT_EVENTS[event] ?? event, detail, path, exact };
  };

  const byAuditEntry: Find = async (q) => {
    const entry = await audit.trail.find(q);
    if (entry) return [auditHit(entry, true)];
    const reference = referenceIn(q);
    // A sign-in or an error tells more than the entries of the same request.
    if (reference === undefined || (await bySignIn(reference)).length > 0) return [];
    const { items } = await audit.trail.page({
      limit: MAX_HITS + 1,
      filter: { text: reference },
      searchMs: AUDIT_SEARCH_MS,
    });
    return items.map((record) => auditHit(record, items.length === 1));
  };

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

/** Addresses have dots, as `USER.REST` has, the form of the ids of sessions. */
const isAddress = (q: string) => q.includes('@');

function isOneOf(q: string, ...texts: (string | undefined)[]): boolean {
  return texts.some((text) => text?.toLowerCase() === q.toLowerCase());
}
