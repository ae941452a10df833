/** Creates the administration: its guards, its pages, and the resources behind its routes. */
import type { RateLimits } from '../../shared/http/rate-limit.ts';
import type { Route } from '../../shared/http/route-table.ts';
import type { Pages } from '../../shared/pages/pages.ts';
import { type AdminSignIn, createAdminGuards } from './guards.ts';
import { MENU } from './menu.ts';
import { createAdminPages } from './page.ts';
import type { AdminModules } from './parts.ts';
import { adminResources } from './resources.ts';
import { adminRoutes } from './routes.ts';

export interface Admin {
  routes: readonly Route[];
}

export function createAdmin(
  parts: AdminModules & {
    pages: Pages;
    limits: RateLimits;
    signIn: AdminSignIn;
    /** The tour of the demo, which the pages link to. */
    tourUrl: string | undefined;
  },
): Admin {
  const { sessions, audit, limits, signIn, adminTokens, publicUrl, tourUrl } = parts;
  const guards = createAdminGuards({
    sessions: sessions.guards,
    tokens: adminTokens,
    limits,
    note: audit.note,
    signIn,
    publicUrl,
  });
  const pages = createAdminPages({ pages: parts.pages, frame: { menu: MENU, tourUrl }, trail: audit.trail });
  return { routes: adminRoutes(adminResources({ ...parts, pages }), guards) };
}
