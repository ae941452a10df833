/** Makes the administration: its guards, its pages, and the resources behind its routes. */
import type { RateLimits } from '../../shared/http/rate-limit.ts';
import type { Route } from '../../shared/http/route-table.ts';
import type { Events } from '../../shared/observability/events.ts';
import type { Pages } from '../../shared/pages/pages.ts';
import type { Chore } from '../../shared/storage/chore.ts';
import { createAdminTokens } from './admin-tokens/admin-token.ts';
import { createAdminGuards } from './guards.ts';
import { createKeyRotation } from './keys/rotation.ts';
import { createAdminPages } from './page.ts';
import type { AdminModules } from './parts.ts';
import { adminResources, adminRoutes, MENU } from './routes.ts';

export interface Admin {
  routes: readonly Route[];
  chores: readonly Chore[];
  close(): Promise<void>;
}

export function createAdmin(
  parts: AdminModules & {
    events: Pick<Events, 'keyRotationFailed'>;
    pages: Pages;
    limits: RateLimits;
    /** `stepUp`: the stronger sign-in that administrators need, if one is set. */
    signIn: Pick<Parameters<typeof createAdminGuards>[0], 'adminApp' | 'stepUp'>;
    tourUrl: string | undefined;
  },
): Admin {
  const { storage, sessions, audit, events, limits, signIn, publicUrl, clock } = parts;
  const { store, sealedJson } = storage;
  const tokens = createAdminTokens({ store, sealedJson, clock });
  const guards = createAdminGuards({
    sessions: sessions.guards,
    tokens,
    limits,
    note: audit.note,
    publicUrl,
    adminApp: signIn.adminApp,
    stepUp: signIn.stepUp,
  });
  const keyRotation = createKeyRotation({ storage, audit, events, clock });
  const resources = adminResources({
    ...parts,
    pages: createAdminPages(parts.pages, { menu: MENU, tourUrl: parts.tourUrl }),
    tokens,
    keyRotation,
  });
  return { routes: adminRoutes(resources, guards), chores: keyRotation.chores, close: keyRotation.close };
}
