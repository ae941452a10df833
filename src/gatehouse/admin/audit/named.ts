/** Resolves names in filters of the audit trail to ids: entries contain ids, and the page shows names. */
import type { AuditFilter, NamedIds } from '../../audit/facets.ts';
import type { CurrentApps } from '../../connected-apps/current-apps.ts';
import type { UserStore } from '../../users/user-store.ts';

/** Limits the number of indexes that are read for one page. */
const MAX_NAMED_USERS = 25;

export interface NamedFilter {
  filter: AuditFilter;
  /** True if some of the matching users are ignored. */
  hasTooManyUsers: boolean;
}

export interface NameParts {
  users: Pick<UserStore, 'find' | 'search'>;
  apps: Pick<CurrentApps, 'find' | 'list' | 'nameOf'>;
}

/** Adds the ids of the apps and the first 25 users that match the texts of the filter. */
export async function withNamedIds(filter: AuditFilter, parts: NameParts): Promise<NamedFilter> {
  const [actor, target, text] = await Promise.all([
    usersNamed(filter.actor, parts),
    usersNamed(filter.target, parts),
    usersNamed(filter.text, parts),
  ]);
  const named: NamedIds = {
    actor: actor.ids,
    target: [...target.ids, ...appsNamed(filter.target, parts)],
    text: [...text.ids, ...appsNamed(filter.text, parts)],
  };
  return { filter: { ...filter, named }, hasTooManyUsers: actor.hasTooMany || target.hasTooMany || text.hasTooMany };
}

/** Finds the users that a text matches. A complete id matches only its own user or app. */
async function usersNamed(text = '', { users, apps }: NameParts): Promise<{ ids: string[]; hasTooMany: boolean }> {
  const searched = text.replace(/\p{Cc}+/gu, ' ').trim();
  if (searched === '' || apps.find(searched) || (await users.find(searched))) return { ids: [], hasTooMany: false };
  const { items, next } = await users.search({ q: searched, limit: MAX_NAMED_USERS });
  return { ids: items.map(({ user }) => user.id), hasTooMany: next !== undefined };
}

function appsNamed(text = '', { apps }: NameParts): string[] {
  const beginning = text.trim().toLowerCase();
  if (beginning === '') return [];
  return apps.list().flatMap(({ id, name }) => (name.toLowerCase().startsWith(beginning) ? [id] : []));
}
