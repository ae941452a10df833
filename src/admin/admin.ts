/** Makes the administration: its guards, its pages, and the resources behind its routes. */
import type { RequestHandler } from 'express';
import type { Audit } from '../audit/audit.ts';
import type { Bins } from '../bin/bin.ts';
import type { PublicUrl } from '../config/rules.ts';
import type { ConnectedApps } from '../connected-apps/connected-apps.ts';
import type { Grants } from '../grants/grants.ts';
import type { RateLimits } from '../http/rate-limit.ts';
import type { Route } from '../http/route-table.ts';
import type { Events } from '../observability/events.ts';
import type { Outbound } from '../outbound/outbound.ts';
import type { Pages } from '../pages/pages.ts';
import type { ProblemReferences } from '../pages/problem-references.ts';
import type { Relay } from '../relay/relay.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { SignInRecords } from '../sign-in-record/sign-in-record.ts';
import type { Chore } from '../storage/chore.ts';
import type { Storage } from '../storage/storage.ts';
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
