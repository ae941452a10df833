/** Makes the administration: its guards, its pages, and the resources behind its routes. */
import type { RequestHandler } from 'express';
import type { PublicUrl } from '../../shared/config/rules.ts';
import type { RateLimits } from '../../shared/http/rate-limit.ts';
import type { Route } from '../../shared/http/route-table.ts';
import type { Events } from '../../shared/observability/events.ts';
import type { Outbound } from '../../shared/outbound/outbound.ts';
import type { Pages } from '../../shared/pages/pages.ts';
import type { ProblemReferences } from '../../shared/pages/problem-references.ts';
import type { Sessions } from '../../shared/sessions/sessions.ts';
import type { Chore } from '../../shared/storage/chore.ts';
import type { Storage } from '../../shared/storage/storage.ts';
import type { Audit } from '../audit/audit.ts';
import type { Bins } from '../bin/bin.ts';
import type { ConnectedApps } from '../connected-apps/connected-apps.ts';
import type { Grants } from '../grants/grants.ts';
import type { Relay } from '../relay/relay.ts';
import type { SignInRecords } from '../sign-in-record/sign-in-record.ts';
import type { Threads } from '../threads/threads.ts';
import type { Users } from '../users/users.ts';
import type { Webhooks } from '../webhooks/webhooks.ts';
import { type AdminTokens, createAdminTokens } from './admin-tokens/admin-token.ts';
import { createAdminGuards } from './guards.ts';
import { createKeyRotation, type KeyRotation } from './keys/rotation.ts';
import { type AdminPages, createAdminPages } from './page.ts';
import { adminResources, adminRoutes, MENU } from './routes.ts';

export interface Admin {
  routes: readonly Route[];
  chores: readonly Chore[];
  close(): Promise<void>;
}

interface Rooms {
  storage: Storage;
  outbound: Outbound;
  audit: Audit;
  connectedApps: ConnectedApps;
  grants: Grants;
  users: Users;
  threads: Threads;
  sessions: Sessions;
  signInRecords: SignInRecords;
  bins: Bins;
  relay: Relay;
  webhooks: Webhooks;
  references: Pick<ProblemReferences, 'find'>;
  /** `tryApp`: a sign-in with an app, whose result is its record. */
  signIn: { routes: { signIn: { tryApp: RequestHandler } } };
  publicUrl: PublicUrl;
  clock: () => number;
}

/** Resources are made from these; each takes what it needs. */
export interface AdminParts extends Rooms {
  pages: AdminPages;
  tokens: AdminTokens;
  keyRotation: KeyRotation;
}

export function createAdmin(
  parts: Rooms & {
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
