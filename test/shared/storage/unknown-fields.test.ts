/**
 * F29: a field that a newer version has written, and that this version does not know, is still there after this version
 * has changed the record.
 */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Request } from 'express';
import type { SessionData } from 'express-session';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createAccounts } from '../../../src/bin-lookup-service/accounts.ts';
import { dismissStep } from '../../../src/gatehouse/admin/overview/setup.ts';
import { createTallies } from '../../../src/gatehouse/audit/tallies.ts';
import { createAuditTrail } from '../../../src/gatehouse/audit/trail.ts';
import { createStoredDatasets } from '../../../src/gatehouse/bin/stored-dataset.ts';
import { createBinTally } from '../../../src/gatehouse/bin/tally.ts';
import { type AppRegistry, createAppRegistry } from '../../../src/gatehouse/connected-apps/app-registry.ts';
import { createCurrentApps } from '../../../src/gatehouse/connected-apps/current-apps.ts';
import { createObservations } from '../../../src/gatehouse/connected-apps/observations.ts';
import { createOwnKeys } from '../../../src/gatehouse/connected-apps/own-keys.ts';
import { registrationOf } from '../../../src/gatehouse/connected-apps/registration.ts';
import type { ConnectionIndex } from '../../../src/gatehouse/grants/connection-index.ts';
import { type Consent, consentedGrant } from '../../../src/gatehouse/grants/consent.ts';
import { createDisconnectEveryone } from '../../../src/gatehouse/grants/disconnect-everyone.ts';
import { createGrantStore } from '../../../src/gatehouse/grants/grant-store.ts';
import { createRevocations } from '../../../src/gatehouse/grants/revocations.ts';
import { createKeyRotation } from '../../../src/gatehouse/key-rotation/key-rotation.ts';
import { relayPolicySchema } from '../../../src/gatehouse/relay/policy.ts';
import { createRelayTokens, type RelayTokens } from '../../../src/gatehouse/relay/relay-token.ts';
import { createServiceAccounts, newServiceAccountId } from '../../../src/gatehouse/relay/service-account.ts';
import { createRelayUses } from '../../../src/gatehouse/relay/uses.ts';
import { createPendingRequests } from '../../../src/gatehouse/sign-in/pending-requests.ts';
import { createRecordStore } from '../../../src/gatehouse/sign-in-record/record-store.ts';
import { createUserStore } from '../../../src/gatehouse/users/user-store.ts';
import { createWebhookHealths } from '../../../src/gatehouse/webhooks/health.ts';
import { createWebhookMessages } from '../../../src/gatehouse/webhooks/messages.ts';
import { createWebhookStore, newWebhookId } from '../../../src/gatehouse/webhooks/webhook-store.ts';
import type { Events } from '../../../src/shared/observability/events.ts';
import { createKeptForms } from '../../../src/shared/pages/kept-forms.ts';
import { type ConnectedApp, connectedAppSchema } from '../../../src/shared/provider/connected-app.ts';
import type { TokenResponse } from '../../../src/shared/provider/token-response.ts';
import { createSessionLists } from '../../../src/shared/sessions/session-lists.ts';
import { createSessionRecords, dataOf } from '../../../src/shared/sessions/session-record.ts';
import { keys, kindOf, SCHEMA } from '../../../src/shared/storage/keys.ts';
import { newOpaqueTokenId } from '../../../src/shared/storage/opaque-token.ts';
import { agreeOnSchema } from '../../../src/shared/storage/schema-version.ts';
import { createReplaceableSealer } from '../../../src/shared/storage/sealed.ts';
import { createSealedJson } from '../../../src/shared/storage/sealed-json.ts';
import type { Store, StoredRecord } from '../../../src/shared/storage/store.ts';
import { datasetOf } from '../../support/bins.ts';
import { makeSealer } from '../../support/encryption-keys.ts';
import { createTestStorage, type TestStorage } from '../../support/test-storage.ts';
import { until } from '../../support/until.ts';

const FIELD = 'ofNewerVersion';
const DAY = 86_400_000;
const sealer = makeSealer();
const sealedJson = createSealedJson(sealer);

const APP: ConnectedApp = {
  ...connectedAppSchema.parse({
    id: 'platform',
    name: 'Platform',
    issuer: 'https://idp.test',
    clientId: 'c',
    scopes: ['openid'],
    callbackUrls: ['https://gatehouse.test/oauth/callback/platform'],
  }),
  clientSecret: undefined,
};
const APP_REGISTRATION = { appId: APP.id, registration: registrationOf(APP) };
const USER = { id: 'u1', issuer: 'https://idp.test', subject: 's1', name: 'One', email: 'one@example.test' };
const { id: _id, ...PERSON } = USER;
const consentOf = (accessToken: string): Consent => ({
  userId: USER.id,
  app: APP,
  scopes: ['openid'],
  account: { subject: 's1' },
  response: {
    accessToken,
    refreshToken: 'r',
    idToken: undefined,
    scopes: undefined,
    expiresInSeconds: 60,
    claims: undefined,
  },
});
const POLICY = { scopes: ['bin:read' as const], apps: [], users: 'none' as const, networks: [], expiresAt: 9e15 };
const RELAY_TOKEN = { ...relayPolicySchema.parse(POLICY), binCallsPerMonth: null };
const REPORT = {
  shape: 'bin-list-data',
  taken: 1,
  skipped: 0,
  faults: [],
  reasons: [],
  conflicts: { count: 0, ranges: [] },
  notUnderstood: [],
};
const NO_AUDIT = { note: () => undefined };
const ids = { account: newServiceAccountId(), webhook: newWebhookId(), token: newOpaqueTokenId() };

/** A store, and the clock of the modules that use it. */
interface StoreAndClock {
  store: Store;
  clock: () => number;
  advance(milliseconds: number): void;
}

const WEBHOOK = { url: 'https://hook.test/', events: ['connection.created' as const], disabled: false };
const STORED_SESSIONS = { hasEnded: async () => false, end: async () => undefined };

const sessionData = () =>
  ({ cookie: { originalMaxAge: null }, user: { ...USER, admin: false }, csrfToken: 'c', app: APP.id }) as SessionData;
const listsOf = (parts: StoreAndClock) => createSessionLists({ ...parts, maxSeconds: 3_600 });
const sessionsOf = (parts: StoreAndClock) =>
  createSessionRecords({
    ...parts,
    sealedJson,
    lists: listsOf(parts),
    lifetimes: { idleSeconds: 1_800, maxSeconds: 3_600 },
  });
const pendingRequestOf = ({ clock }: StoreAndClock) => ({
  purpose: 'sign_in' as const,
  appId: APP.id,
  appFingerprint: 's',
  returnTo: '/',
  attempt: 'a',
  startedAt: clock(),
});
const pendingRequestsOf = (parts: StoreAndClock) => createPendingRequests({ ...parts, sealedJson, home: '/' });
const grantsOf = (parts: StoreAndClock) => createGrantStore({ ...parts, sealedJson });
const revocationsOf = (parts: StoreAndClock) =>
  createRevocations({
    ...parts,
    sealedJson,
    grants: grantsOf(parts),
    findApp: () => APP,
    events: {} as Events,
    random: () => 0.5,
    provider: { revoke: async () => ({ outcome: 'unconfirmed' }) },
  });
const keepForm = (parts: StoreAndClock) => {
  const req = { context: { session: { ref: 'of-the-session' } } } as Request;
  return createKeptForms({ ...parts, sealedJson }).save(req, '/admin', { status: 400, form: {} });
};
const signInsOf = (parts: StoreAndClock) => createRecordStore(parts);
const accountsOf = (parts: StoreAndClock) => createServiceAccounts({ ...parts, sealedJson });
const webhooksOf = (parts: StoreAndClock) => createWebhookStore({ ...parts, sealedJson });
const messagesOf = (parts: StoreAndClock) =>
  createWebhookMessages({
    ...parts,
    webhooks: webhooksOf(parts),
    healths: createWebhookHealths(parts),
    audit: NO_AUDIT,
    random: () => 0.5,
    onLost: () => undefined,
    outbound: { fetch: async () => new Response('', { status: 500 }) },
  });
const planAccountsOf = (parts: StoreAndClock) => createAccounts({ ...parts, randomBytes });

async function observe(parts: StoreAndClock, refreshToken: string | undefined): Promise<void> {
  const observations = createObservations(parts);
  observations.record(APP, { refreshToken } as TokenResponse, undefined);
  await until(async () => (await observations.read(APP.id))?.refreshToken === (refreshToken !== undefined));
}

async function withRegistry(parts: StoreAndClock, work: (registry: AppRegistry) => Promise<unknown>): Promise<void> {
  const registry = await createAppRegistry({ ...parts, sealedJson, apps: createCurrentApps([]) });
  await work(registry);
  await registry.close();
}

async function withTokens(parts: StoreAndClock, work: (tokens: RelayTokens) => Promise<unknown>): Promise<void> {
  const tokens = await createRelayTokens({ ...parts, sealedJson });
  await work(tokens);
  await tokens.close();
}

async function countOneEvent(parts: StoreAndClock): Promise<void> {
  const tallies = createTallies(parts);
  tallies.count('relay.succeeded');
  await tallies.close();
}

async function countOneResponse(parts: StoreAndClock, failure: string | undefined): Promise<void> {
  const tally = createBinTally(parts);
  tally.serviceResponded(failure);
  await tally.close();
}

async function recordOneUse(parts: StoreAndClock): Promise<void> {
  await parts.store.write([{ put: keys.grant('u9', APP.id), value: 'a grant' }]);
  const uses = createRelayUses({ ...parts, audit: NO_AUDIT, isApp: () => true });
  const call = { app: APP.id, userId: 'u9', result: 'succeeded' as const, address: '192.0.2.1', requestId: 'r' };
  uses.note({ token: { id: 't', name: 'one' }, scope: 'threads:read', ...call });
  await uses.close();
}

/** Returns the record's content; undefined if it is not JSON. */
async function contentOf(key: string, value: string): Promise<unknown> {
  const text = sealer.kidOf(value) === undefined ? value : await sealer.open(value, key);
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * Adds the field to every record of this kind, or to the items of a list or map, and returns the records that it wrote.
 */
async function addField(store: Store, kind: string): Promise<[key: string, StoredRecord][]> {
  const extendedRecords: [string, StoredRecord][] = [];
  for (const record of (await Array.fromAsync(store.walk())).flat()) {
    const content = kindOf(record.key) === kind ? await contentOf(record.key, record.value) : undefined;
    if (typeof content !== 'object' || content === null) continue;
    const text = JSON.stringify(withField(content));
    const value = sealer.kidOf(record.value) === undefined ? text : await sealer.seal(text, record.key);
    await store.write([{ put: record.key, value, lifetimeSeconds: 'unchanged' }]);
    extendedRecords.push([record.key, { value, version: record.version }]);
  }
  return extendedRecords;
}

function withField(content: object): object {
  const parts = Object.entries(content);
  const isMap = parts.every(([, part]) => typeof part === 'object' && part !== null && !Array.isArray(part));
  if (Array.isArray(content)) return content.map(withField);
  if (isMap) return Object.fromEntries(parts.map(([name, part]) => [name, withField(part)]));
  return { ...content, [FIELD]: FIELD };
}

const countFields = (content: unknown): number => JSON.stringify(content).split(`"${FIELD}":"${FIELD}"`).length - 1;

/** For each kind of record that is read, changed and written again: how to create one and how to change it. */
const CHANGED_KINDS: Readonly<
  Record<string, { create(parts: StoreAndClock): Promise<unknown>; change?(parts: StoreAndClock): Promise<unknown> }>
> = {
  schema: {
    create: ({ store }) => agreeOnSchema(store, SCHEMA),
    change: ({ store }) => agreeOnSchema(store, { ...SCHEMA, version: SCHEMA.version + 1 }),
  },
  user: {
    create: (parts) => createUserStore(parts).noteSignIn(USER),
    async change(parts) {
      const users = createUserStore(parts);
      await users.noteSignIn({ ...USER, name: 'Another' });
      await users.setDisabled(USER.id, true);
      await users.setDisabled(USER.id, false);
    },
  },
  'setup-steps': {
    create: ({ store }) => dismissStep(store, 'alerts'),
    change: ({ store }) => dismissStep(store, 'backup'),
  },
  session: {
    create: (parts) => sessionsOf(parts).write('id', sessionData()),
    async change(parts) {
      parts.advance(120_000);
      const session = await sessionsOf(parts).read('id', { extend: true });
      await sessionsOf(parts).write('id', { ...sessionData(), ...(session && dataOf(session)), address: '192.0.2.1' });
    },
  },
  'sessions-of': {
    create: (parts) =>
      listsOf(parts).add(keys.sessionsOfUser('u2'), { hash: 'h', startedAt: parts.clock() }, 1, STORED_SESSIONS),
    change: (parts) =>
      listsOf(parts).add(keys.sessionsOfUser('u2'), { hash: 'i', startedAt: parts.clock() }, 1, STORED_SESSIONS),
  },
  'pending-requests': {
    create: (parts) => pendingRequestsOf(parts).put('browser', 'one', pendingRequestOf(parts)),
    change: (parts) => pendingRequestsOf(parts).put('browser', 'two', pendingRequestOf(parts)),
  },
  'kept-form': { create: keepForm },
  grant: {
    create: (parts) => grantsOf(parts).save(consentedGrant(consentOf('a1'), undefined, 'c1', parts.clock()), 0),
    async change(parts) {
      const stored = await grantsOf(parts).loadStored(USER.id, APP.id);
      if (!stored || 'unreadable' in stored) throw new Error('The grant is gone.');
      await grantsOf(parts).save(consentedGrant(consentOf('a2'), stored.grant, 'c2', parts.clock()), stored.version);
    },
  },
  revocation: {
    create: (parts) =>
      revocationsOf(parts).plan({ userId: USER.id, ...APP_REGISTRATION, token: 't', hint: 'refresh_token' }),
    async change(parts) {
      const [pending] = await revocationsOf(parts).pendingOf(USER.id);
      expect(await revocationsOf(parts).attempt(APP, USER.id, pending?.id ?? '')).toMatchObject({
        outcome: 'pending',
      });
    },
  },
  observation: {
    create: (parts) => observe(parts, 'rt'),
    change: (parts) => observe(parts, undefined),
  },
  'connected-app': {
    create: (parts) => withRegistry(parts, (registry) => registry.create(APP, 'secret')),
    change: (parts) =>
      withRegistry(parts, async (registry) => {
        const before = await registry.find(APP.id);
        if (before) await registry.replace(before, { ...APP, name: 'Renamed' }, 'kept');
      }),
  },
  'own-keys': {
    create: (parts) => createOwnKeys({ ...parts, sealedJson }).rotate(),
    async change(parts) {
      parts.advance(DAY);
      await createOwnKeys({ ...parts, sealedJson }).rotate();
    },
  },
  'sign-in': {
    create: (parts) => signInsOf(parts).add('state', { steps: [], reference: 'aaaaaaaa', app: APP.id }),
    change: (parts) => signInsOf(parts).add('state', { steps: [], reference: 'bbbbbbbb', outcome: 'failed' }),
  },
  'disconnect-job': {
    create: ({ store, clock }) =>
      store.write([
        {
          put: keys.disconnectJob(APP.id),
          value: JSON.stringify({ app: APP.id, startedAt: clock(), total: 1, done: 0, results: {} }),
        },
        { index: keys.disconnectJobs, add: APP.id, score: clock() },
      ]),
    async change({ store, clock }) {
      const connections = { end: async () => undefined };
      const index = { oldest: async () => [], count: async () => 0 } as unknown as ConnectionIndex;
      const everyone = createDisconnectEveryone({ store, clock, index, connections });
      await everyone.resume();
      await expect.poll(async () => (await everyone.progress(APP.id))?.finishedAt).toBeDefined();
    },
  },
  'key-rotation': {
    create: ({ store }) =>
      store.write([
        {
          put: keys.keyRotation,
          value: JSON.stringify({
            kid: sealer.sealingKid,
            finishedAt: null,
            done: 0,
            by: { actor: { kind: 'operator' } },
          }),
        },
      ]),
    async change({ store, clock }) {
      const audit = { trail: createAuditTrail({ store, clock }) };
      const rotation = createKeyRotation({
        storage: { store, sealer: createReplaceableSealer(sealer) },
        audit,
        events: { keyRotationFailed: () => undefined },
        clock,
      });
      await rotation.scheduledTasks[0]?.work({ isOver: () => false });
      await until(async () => ((await rotation.progress())?.finishedAt ?? null) !== null);
      await rotation.close();
    },
  },
  tally: { create: countOneEvent, change: countOneEvent },
  'bin-lookup-service-health': {
    create: (parts) => countOneResponse(parts, 'timeout'),
    change: (parts) => countOneResponse(parts, undefined),
  },
  'bin-dataset': {
    create: (parts) => createStoredDatasets(parts).save(datasetOf(), REPORT),
    async change(parts) {
      const stored = createStoredDatasets(parts);
      await stored.save(datasetOf(), REPORT);
      await stored.rollback((await stored.versions())?.previous?.id ?? '');
    },
  },
  'relay-token': {
    create: (parts) => withTokens(parts, (tokens) => tokens.create(ids.token, { ...RELAY_TOKEN, name: 'one' })),
    change: (parts) =>
      withTokens(parts, async (tokens) => {
        const { version = 0 } = (await tokens.find(ids.token)) ?? {};
        await tokens.change(ids.token, version, { ...RELAY_TOKEN, name: 'two' });
        await tokens.rotate(ids.token, 60);
      }),
  },
  'relay-uses-of': { create: recordOneUse, change: recordOneUse },
  'service-account': {
    create: (parts) =>
      accountsOf(parts).create({
        id: ids.account,
        name: 'one',
        app: APP.id,
        apiToken: 't',
        platform: 'https://p.test',
      }),
    async change(parts) {
      const { version = 0 } = (await accountsOf(parts).find(ids.account)) ?? {};
      await accountsOf(parts).change(ids.account, version, { name: 'two' });
    },
  },
  webhook: {
    create: (parts) => webhooksOf(parts).create(ids.webhook, WEBHOOK),
    async change(parts) {
      const { version = 0 } = (await webhooksOf(parts).find(ids.webhook)) ?? {};
      await webhooksOf(parts).change(ids.webhook, version, { ...WEBHOOK, url: 'https://other.test/' });
    },
  },
  'webhook-message': {
    async create(parts) {
      messagesOf(parts).announce('connection.created', { userId: USER.id, app: APP.id });
      const listed = () => messagesOf(parts).page(ids.webhook, { limit: 1 });
      await until(async () => (await listed()).items.length > 0);
    },
    change: (parts) => messagesOf(parts).deliver(),
  },
  'plan-account': {
    create: (parts) => planAccountsOf(parts).register(PERSON),
    async change(parts) {
      const { id } = await planAccountsOf(parts).register({ ...PERSON, name: 'Another' });
      await planAccountsOf(parts).requestPlan(id, { name: 'p', monthlyRequests: 1 });
      await planAccountsOf(parts).confirmPlan(id);
      await planAccountsOf(parts).createKey(id, { name: 'k', networks: [] });
    },
  },
};

/** Kinds that are written only once, or whose writes replace the whole record. */
const REPLACED_KINDS = (
  'key-check out-of-service session-id-token logout-token problem flash last-use bin connected-apps-change admin-token ' +
  'admin-token-use sign-in-alias bin-lookup-service-pause relay-token-use api-key plan-sign-ins submission connection-check ' +
  'connection-id connect-link connect-ticket bin-dataset-upload webhook-response webhook-failing app-check ' +
  'app-registration erased-user narrowing awaited-refresh sign-in-return'
).split(' ');
/** Kinds that need no test: maps of numbers, which preserve every name, and lists that work like `sessions-of`. */
const UNTESTED_KINDS = ['relay-uses', 'sessions-of-sid'];

/** The kinds of records in the table of `keys.ts`. */
const RECORD_KINDS = [
  ...new Set(
    readFileSync(join(import.meta.dirname, '../../../src/shared/storage/keys.ts'), 'utf8')
      .matchAll(/^ \* \| (`[^|]+)\|/gm)
      .flatMap(([, cell = '']) => cell.matchAll(/`([a-z-]+)/g))
      .map(([, kind = '']) => kind),
  ),
];

test('F29 every kind of record is either changed by a test here or never changed by any version', () => {
  const kinds = RECORD_KINDS.filter((kind) => !(kind in CHANGED_KINDS) && !REPLACED_KINDS.includes(kind));
  expect(kinds.toSorted()).toEqual(UNTESTED_KINDS);
});

describe('F29: a field that this version does not know survives a write of', () => {
  let storage: TestStorage;
  beforeAll(async () => {
    storage = await createTestStorage('SQLite');
  });
  afterAll(() => storage?.dispose());

  test.for(Object.entries(CHANGED_KINDS))('%s', async ([name, { create: make, change = make }]) => {
    await storage.withStore(async (store) => {
      let now = Date.now();
      const parts: StoreAndClock = { store, clock: () => now, advance: (milliseconds) => (now += milliseconds) };
      await make(parts);
      const recordsWithField = await addField(store, name);
      expect(recordsWithField).not.toEqual([]);
      await change(parts);
      let isAnyChanged = false;
      for (const [key, { value: valueBefore }] of recordsWithField) {
        const recordAfter = await store.get(key);
        const fieldsBefore = countFields(await contentOf(key, valueBefore));
        expect(recordAfter && countFields(await contentOf(key, recordAfter.value)), key).toBe(fieldsBefore);
        isAnyChanged ||= recordAfter?.value !== valueBefore;
      }
      expect(isAnyChanged).toBe(true);
    });
  });
});
