/** The dependencies of the sign-in flow, and the request of a callback. */
import type { Events } from '../../shared/observability/events.ts';
import type { ProviderClient } from '../../shared/provider/provider-client.ts';
import type { BrowserSecret } from '../../shared/sessions/browser-sessions.ts';
import type { SessionUser } from '../../shared/sessions/session.ts';
import type { CurrentApps } from '../connected-apps/current-apps.ts';
import type { Connections } from '../grants/connections.ts';
import type { AttemptRecorder, RequestInfo } from '../sign-in-record/attempt-log.ts';
import type { UserStore } from '../users/user-store.ts';
import type { BeginSession } from './begin-session.ts';
import type { AdminRule } from './identity.ts';
import type { KeptReturns } from './kept-returns.ts';
import type { PendingRequests } from './pending-requests.ts';
import type { StateSigner } from './state.ts';

export interface FlowParts {
  apps: CurrentApps;
  provider: ProviderClient;
  connections: Connections;
  users: Pick<UserStore, 'find' | 'prefetch' | 'signInWrites' | 'conditionFor'>;
  recorder: AttemptRecorder;
  pendingRequests: PendingRequests;
  keptReturns: KeptReturns;
  states: StateSigner;
  /** Returns the rule as it is now: a reload may change its app. */
  adminRule: () => AdminRule;
  events: Pick<Events, 'signInStarted'>;
  clock: () => number;
  publicHref: string;
  /** Local path of the start page. */
  home: string;
  /** The URL where administrators see the record of an attempt. */
  recordUrl: (attempt: string) => string;
}

export interface CallbackRequest {
  /** Id of the app in the path of the callback. */
  appId: string;
  /** The callback URL with all its parameters. */
  callback: URL;
  /** The signed-in user. */
  user: SessionUser | undefined;
  /** Id of the app that the session began with. */
  signInApp: string | undefined;
  browserSecrets: readonly BrowserSecret[];
  info: RequestInfo;
  beginSession: BeginSession;
}
