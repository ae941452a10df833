/**
 * Fills a storage with many users, grants, sessions, sign-ins and audit entries. The code of Gatehouse writes them to a
 * store in memory, batch by batch, and each batch is loaded as a restore loads a backup.
 */
import { Cookie, type SessionData } from 'express-session';
import { createAuditTrail } from '../../src/gatehouse/audit/trail.ts';
import { registrationOf } from '../../src/gatehouse/connected-apps/registration.ts';
import { newConnectionId } from '../../src/gatehouse/grants/connection-ids.ts';
import { createConnectionIndex } from '../../src/gatehouse/grants/connection-index.ts';
import type { Grant } from '../../src/gatehouse/grants/grant.ts';
import { createGrantStore } from '../../src/gatehouse/grants/grant-store.ts';
import type { RefreshFailure } from '../../src/gatehouse/grants/refresh-failure.ts';
import { relayPolicySchema } from '../../src/gatehouse/relay/policy.ts';
import { createRelayTokens } from '../../src/gatehouse/relay/relay-token.ts';
import { createRecordStore } from '../../src/gatehouse/sign-in-record/record-store.ts';
import { userIdOf } from '../../src/gatehouse/users/user-id.ts';
import { createUserStore } from '../../src/gatehouse/users/user-store.ts';
import { createWebhookStore } from '../../src/gatehouse/webhooks/webhook-store.ts';
import type { ConnectedApp } from '../../src/shared/provider/connected-app.ts';
import { createSessionLists } from '../../src/shared/sessions/session-lists.ts';
import { createSessionRecords } from '../../src/shared/sessions/session-record.ts';
import { newOpaqueTokenId } from '../../src/shared/storage/opaque-token.ts';
import { retryWhileUnavailable } from '../../src/shared/storage/retry.ts';
import type { Sealer } from '../../src/shared/storage/sealed.ts';
import { createSealedJson } from '../../src/shared/storage/sealed-json.ts';
import type { CopyItem, Store, StoredRecord, Write } from '../../src/shared/storage/store.ts';
import { HOUR_MS } from '../../src/shared/time.ts';

export const ISSUER = 'https://idp.bench.example';
/** Long enough that no session ends during the measurement. */
export const LIFETIMES = { idleSeconds: 30 * 86_400, maxSeconds: 30 * 86_400 };

const BATCH = 5_000;
const AT_ONCE = 100;
/** One of this many users has it. */
const EVERY = { session: 10, secondApp: 10, auditEntry: 5, failed: 50, isUnverified: 97 };
/** The maximum of the sign-in record. */
const MAX_SIGN_INS = 50_000;
const SERVICES = 500;

const FIRST_NAMES = (
  'Ada Adam Agnes Ahmed Aisha Akira Alan Alice Amir Ana Andrea Anja Anna Anne Anton Aya Ben Bianca Boris Bruno Carla Carlos ' +
  'Chen Clara Claire Daniel Daria David Diego Dina Edda Elena Eli Elif Emil Emma Erik Eva Fatima Felix Finn Franz Freya Gita ' +
  'Grace Greta Hana Hans Hugo Ida Ines Ingrid Ivan Jana Jens Jonas Jose Julia Kai Karl Kenji Klara Lars Laura Lea Leo Lina ' +
  'Linus Lisa Luca Lucia Luis Mai Marco Maria Marie Mark Marta Max Mei Mia Mila Milan Mina Mohammed Nadia Nina Nora Noor Olga ' +
  'Omar Oscar Paul Petra Pia Priya Rosa Ruth Sami Sara Selma Sven Tara Theo Tim Tom Uma Vera Viktor Wei Yara Yuki Zoe'
).split(' ');
const LAST_NAMES = (
  'Abe Ahmadi Andersen Bauer Becker Berg Bianchi Borg Brown Castro Chen Cohen Costa Cruz Dahl Davis Diaz Dubois Eriksson Evans ' +
  'Farah Fischer Fontana Fuchs Garcia Gomez Gupta Haas Haddad Hansen Hill Hoffmann Horvat Ito Ivanov Jansen Jensen Johansson Jones ' +
  'Kaya Keller Khan Kim Klein Koch Kovac Kumar Lang Larsen Lee Lehmann Lopez Maier Martin Meyer Miller Mori Moreau Muller Nagy ' +
  'Nguyen Nielsen Novak Olsen Park Patel Petrov Popov Ramos Reyes Ricci Rossi Roy Ruiz Santos Sato Schmidt Schneider Schulz Silva ' +
  'Singh Smith Suzuki Svensson Tanaka Taylor Thomas Torres Tran Vargas Vogel Wagner Wang Weber Weiss White Wilson Wolf Yang Yilmaz'
).split(' ');

export interface GeneratedUser {
  id: string;
  subject: string;
  name: string;
  email: string;
}

/** Returns the same user for the same number. */
export function userOf(n: number): GeneratedUser {
  const first = FIRST_NAMES[n % FIRST_NAMES.length] ?? '';
  const last = LAST_NAMES[Math.floor(n / FIRST_NAMES.length) % LAST_NAMES.length] ?? '';
  const subject = `idp|${1_000_000 + n}`;
  const email = `${first}.${last}.${n}@example.test`.toLowerCase();
  return { id: userIdOf(ISSUER, subject), subject, name: `${first} ${last}`, email };
}

/** @param apps every user has a connection to the first */
export async function fillLargeStorage(parts: {
  store: Store;
  sealer: Sealer;
  users: number;
  apps: readonly [ConnectedApp, ConnectedApp];
  advance: (users: number) => void;
}): Promise<void> {
  const { store, sealer, users, apps, advance } = parts;
  const draft = createDraft(store);
  // The last user signed in just now, the first one a month ago.
  const end = Date.now() - HOUR_MS;
  const step = Math.max(1, Math.floor((30 * 24 * HOUR_MS) / users));
  let now = end;
  const write = createWriters(draft.store, sealer, () => now);
  await write.services(apps[0].id);
  for (let from = 0; from < users; from += BATCH) {
    const until = Math.min(users, from + BATCH);
    for (let start = from; start < until; start += AT_ONCE) {
      now = end - (users - start) * step;
      const numbers = Array.from({ length: Math.min(AT_ONCE, until - start) }, (_, at) => start + at);
      await Promise.all(numbers.map((n) => write.user(n, apps)));
      await Promise.all(numbers.filter((n) => users - n <= MAX_SIGN_INS).map((n) => write.signIn(n, apps[0].id)));
    }
    const items = draft.take();
    await retryWhileUnavailable(() => store.load(items));
    advance(until);
  }
}

function createWriters(store: Store, sealer: Sealer, clock: () => number) {
  const sealedJson = createSealedJson(sealer);
  const users = createUserStore({ store, clock });
  const grants = createGrantStore({
    store,
    sealedJson,
    clock,
    connectionIndex: createConnectionIndex({ store, clock }),
  });
  const lists = createSessionLists({ store, maxSeconds: LIFETIMES.maxSeconds, clock });
  const sessions = createSessionRecords({ store, sealedJson, lists, lifetimes: LIFETIMES, clock });
  const signIns = createRecordStore({ store, clock });
  const trail = createAuditTrail({ store, clock });

  const user = async (n: number, [app, secondApp]: readonly [ConnectedApp, ConnectedApp]) => {
    const { id, subject, name, email } = userOf(n);
    await users.noteSignIn({ id, issuer: ISSUER, subject, name, email });
    await grants.save(grantOf(n, app, clock()), 0);
    if (n % EVERY.secondApp === 0) await grants.save(grantOf(n, secondApp, clock()), 0);
    if (n % EVERY.session === 0) {
      const data = {
        cookie: new Cookie(),
        user: { id, issuer: ISSUER, subject, name, email, admin: false },
        csrfToken: `csrf-${n}`,
        app: app.id,
        browser: 'Firefox on Linux',
        address: addressOf(n),
      };
      await sessions.write(`session-${n}`, data as unknown as SessionData);
    }
    if (n % EVERY.auditEntry === 0)
      await trail.append({
        event: n % EVERY.failed === 0 ? 'sign_in.failed' : 'sign_in.succeeded',
        actor: { kind: 'user', id, name: email },
        target: { kind: 'connected_app', id: app.id },
        userId: id,
        address: addressOf(n),
        requestId: `request-${n}`,
      });
  };

  const signIn = async (n: number, app: string) => {
    const { id, name, email } = userOf(n);
    const state = `state-${n}`;
    const reference = n.toString(16).padStart(8, '0');
    const startedAt = clock();
    const address = addressOf(n);
    await store.write(
      signIns.beginWrites({ reference, state, app, purpose: 'sign_in', startedAt, address, steps: [], facts: {} }),
    );
    const isFailed = n % EVERY.failed === 0;
    await signIns.add(state, {
      reference,
      endedAt: startedAt + 2_000,
      outcome: isFailed ? 'failed' : 'signed_in',
      ...(isFailed ? { failure: 'internal' as const } : {}),
      userId: id,
      name,
      email,
      address,
      steps: [{ name: 'started', at: startedAt, ok: true }],
    });
  };

  /** Adds resources that administrators create. */
  const services = async (app: string) => {
    const tokens = await createRelayTokens({ store, sealedJson, clock });
    const webhooks = createWebhookStore({ store, sealedJson, clock });
    const inAMonth = Date.now() + 30 * 24 * HOUR_MS;
    for (let n = 0; n < SERVICES; n += 1) {
      await tokens.create(newOpaqueTokenId(), {
        ...relayPolicySchema.parse({ scopes: ['threads:read'], apps: [app], users: 'all', expiresAt: inAMonth }),
        name: `service-${n}`,
        binCallsPerMonth: null,
      });
      const url = `https://hooks-${n}.example.com/gatehouse`;
      await webhooks.create(`wh${newOpaqueTokenId()}`, { url, events: ['connection.created'], disabled: false });
    }
  };

  return { user, signIn, services };
}

function grantOf(n: number, app: ConnectedApp, now: number): Grant {
  const { id, subject, name, email } = userOf(n);
  const commonFields = { since: now, failures: 1, retryAt: now };
  const mustReconnect: RefreshFailure = {
    ...commonFields,
    kind: 'reconnect_needed',
    cause: 'grant_refused',
    reason: 'invalid_grant',
  };
  const unverified: RefreshFailure = { ...commonFields, kind: 'unverified', cause: 'unclear_refusal' };
  let failure: RefreshFailure | undefined;
  if (n % EVERY.isUnverified === 0) failure = unverified;
  if (n % EVERY.failed === 0) failure = mustReconnect;
  return {
    id: newConnectionId(),
    userId: id,
    appId: app.id,
    registration: registrationOf(app),
    accessToken: `at-${subject}`.padEnd(200, 'x'),
    refreshToken: `rt-${subject}`.padEnd(64, 'x'),
    scopes: ['openid', 'profile', 'email', 'offline_access'],
    account: { subject, name, email },
    obtainedAt: now,
    expiresAt: now + HOUR_MS,
    connectedAt: now,
    consentedAt: now,
    failure,
    refresh: undefined,
  };
}

const addressOf = (n: number) => `10.${(n >> 16) & 255}.${(n >> 8) & 255}.${n & 255}`;

/** A store that contains only the writes of one batch, to load them into another store. */
function createDraft(target: Store): { store: Store; take(): CopyItem[] } {
  let records = new Map<string, StoredRecord & { expiresAt?: number }>();
  let members = new Map<string, Extract<CopyItem, { index: string }>>();
  let version = 0;

  const addMember = (index: string, member: string, score: number) =>
    members.set(`${index} ${member}`, { index, member, score });
  const apply = (step: Write): void => {
    if ('index' in step) {
      if ('add' in step) addMember(step.index, step.add, step.score);
      else members.delete(`${step.index} ${step.remove}`);
    } else if ('put' in step) {
      const { put, value, lifetimeSeconds } = step;
      const end = typeof lifetimeSeconds === 'number' ? { expiresAt: Date.now() + lifetimeSeconds * 1000 } : {};
      records.set(put, { value, version, ...end });
    } else if ('delete' in step) records.delete(step.delete);
  };
  const store: Pick<Store, 'get' | 'getIfChanged' | 'write' | 'append' | 'subscribe' | 'publish'> = {
    get: async (key) => records.get(key),
    getIfChanged: async (key) => records.get(key),
    async write(writes) {
      version += 1;
      for (const step of writes) apply(step);
      return version;
    },
    // A start has already written to the log, and the ids of a copy come before all others.
    append: (log, entries) => retryWhileUnavailable(() => target.append(log, entries)),
    subscribe: async () => async () => undefined,
    publish: async () => undefined,
  };
  return {
    store: store as Store,
    take() {
      const recordItems = [...records].map(([record, content]): CopyItem => ({ record, ...content }));
      const items: CopyItem[] = [...recordItems, ...members.values()];
      records = new Map();
      members = new Map();
      return items.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
    },
  };
}

/** The key in the order of the tables, in which writes are faster. */
function keyOf(item: CopyItem): string {
  if ('record' in item) return `1 ${item.record}`;
  return 'index' in item ? `2 ${item.index} ${item.member}` : '';
}
