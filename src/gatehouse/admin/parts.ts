/** The modules that the resources of the administration use. */
import type { RequestHandler } from 'express';
import type { PublicUrl } from '../../shared/config/rules.ts';
import type { Budget } from '../../shared/http/route-table.ts';
import type { Outbound } from '../../shared/outbound/outbound.ts';
import type { ProblemReferences } from '../../shared/pages/problem-references.ts';
import type { Sessions } from '../../shared/sessions/sessions.ts';
import type { Storage } from '../../shared/storage/storage.ts';
import type { Audit } from '../audit/audit.ts';
import type { Bins } from '../bin/bin.ts';
import type { ConnectedApps } from '../connected-apps/connected-apps.ts';
import type { Grants } from '../grants/grants.ts';
import type { Platform } from '../platform/platform.ts';
import type { Relay } from '../relay/relay.ts';
import type { SignInRecords } from '../sign-in-record/sign-in-record.ts';
import type { Users } from '../users/users.ts';
import type { AdminPages } from './page.ts';

/** Modules that several resources use. A resource with a module of its own declares it (`admin-tokens/routes.ts`). */
export interface AdminModules {
  storage: Storage;
  outbound: Outbound;
  audit: Audit;
  connectedApps: ConnectedApps;
  grants: Grants;
  users: Users;
  platform: Platform;
  sessions: Sessions;
  signInRecords: SignInRecords;
  bins: Bins;
  relay: Relay;
  references: Pick<ProblemReferences, 'find'>;
  /** `tryApp` starts a trial sign-in; its sign-in record shows the result. */
  signIn: { routes: { tryApp: RequestHandler; startBudget: Budget } };
  publicUrl: PublicUrl;
  clock: () => number;
}

export interface AdminParts extends AdminModules {
  pages: AdminPages;
}
