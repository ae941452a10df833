/**
 * Creates the session records, express-session on top of them, and the guards for routes that need a signed-in user.
 */
import type { Config } from '../config/config.ts';
import { isInNetworks } from '../config/networks.ts';
import type { ScheduledTask } from '../storage/scheduled-task.ts';
import type { SealedJson } from '../storage/sealed-json.ts';
import type { Store } from '../storage/store.ts';
import { type BrowserSessions, createBrowserSessions } from './browser-sessions.ts';
import { createSessionGuards, type SessionGuards } from './guards.ts';
import { createSessionLists } from './session-lists.ts';
import { createSessionRecords, type SessionRecords } from './session-record.ts';
import { createUserSessions, type UserSessions } from './user-sessions.ts';

export interface Sessions extends Pick<SessionStore, 'ofUsers' | 'scheduledTasks'> {
  browser: BrowserSessions;
  guards: SessionGuards;
}

export interface SessionStore {
  records: SessionRecords;
  ofUsers: UserSessions;
  scheduledTasks: readonly ScheduledTask[];
}

interface StoreParts {
  store: Store;
  sealedJson: SealedJson;
  lifetimes: { idleSeconds: number; maxSeconds: number };
  clock: () => number;
}

export function createSessions(parts: {
  storage: { store: Store; sealedJson: SealedJson };
  config: Pick<Config, 'publicUrl' | 'session' | 'sessionSecrets' | 'trustedProxies'>;
  clock: () => number;
}): Sessions {
  const { storage, config, clock } = parts;
  const { publicUrl, session: lifetimes, sessionSecrets: secrets } = config;
  const { store, sealedJson } = storage;
  const { records, ofUsers, scheduledTasks } = createSessionStore({ store, sealedJson, lifetimes, clock });
  const browser = createBrowserSessions({ records, secrets, publicUrl });
  const isTrusted = (address: string) => isInNetworks(address, config.trustedProxies);
  const guards = createSessionGuards({ read: browser.read, publicUrl, isTrusted });
  return { browser, guards, ofUsers, scheduledTasks };
}

/** Session records without express-session, for a program that has its own cookies. */
export function createSessionStore({ store, sealedJson, lifetimes, clock }: StoreParts): SessionStore {
  const lists = createSessionLists({ store, maxSeconds: lifetimes.maxSeconds, clock });
  const records = createSessionRecords({ store, sealedJson, lists, lifetimes, clock });
  const ofUsers = createUserSessions({ store, records, lists, clock });
  const scheduledTasks: readonly ScheduledTask[] = [
    { name: 'sweep-sessions', everyMilliseconds: 600_000, work: ofUsers.sweep },
  ];
  return { records, ofUsers, scheduledTasks };
}
