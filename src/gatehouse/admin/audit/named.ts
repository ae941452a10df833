/** The users and apps that a filter of the audit trail names: entries hold their ids, and the page shows their names. */
import type { AuditFilter, NamedIds } from '../../audit/facets.ts';
import type { CurrentApps } from '../../connected-apps/current-apps.ts';
import type { UserStore } from '../../users/user-store.ts';

/** Bounds the indexes that one page reads. */
const MAX_NAMED_USERS = 25;

export interface NamedFilter {
  filter: AuditFilter;
  /** More users match than are taken into account. */
  tooMany: boolean;
}

export interface NameParts {
  users: Pick<UserStore, 'find' | 'search'>;
  apps: Pick<CurrentApps, 'find' | 'list'>;
}

/** Adds the ids of the first 25 users, by the search of users, and of the apps that each of the three texts names. */
export async function withNamedIds(filter: AuditFilter, parts: NameParts): Promise<NamedFilter> {
  const [who, whom, text] = await Promise.all([
    usersNamed(filter.who, parts),
    usersNamed(filter.whom, parts),
    usersNamed(filter.text, parts),
  ]);
  const named: NamedIds = {
    who: who.ids,
    whom: [...whom.ids, ...appsNamed(filter.whom, parts)],
    text: [...text.ids, ...appsNamed(filter.text, parts)],
  };
  return { filter: { ...filter, named }, tooMany: who.tooMany || whom.tooMany || text.tooMany };
}

/** An id names its user alone, also where it begins like the id or the name of another. */
async function usersNamed(text = '', { users, apps }: NameParts): Promise<{ ids: string[]; tooMany: boolean }> {
  const wanted = text.replace(/\p{Cc}+/gu, ' ').trim();
  if (wanted === '' || apps.find(wanted) || (await users.find(wanted))) return { ids: [], tooMany: false };
  const { items, next } = await users.search({ q: wanted, limit: MAX_NAMED_USERS });
  return { ids: items.map(({ user }) => user.id), tooMany: next !== undefined };
}

function appsNamed(text = '', { apps }: NameParts): string[] {
  const wanted = text.trim().toLowerCase();
  if (wanted === '') return [];
  return apps.list().flatMap(({ id, name }) => (name.toLowerCase().startsWith(wanted) ? [id] : []));
}
