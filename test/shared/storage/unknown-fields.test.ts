/**
 * F29: a field that a newer version has written, and that this version does not know, is still there after this version
 * has changed the record.
 */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { SessionData } from 'express-session';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createAccounts } from '../../../src/bin-lookup-service/accounts.ts';
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
const OF_APP = { appId: APP.id, registration: registrationOf(APP) };
const USER = { id: 'u1', issuer: 'https://idp.test', subject: 's1', name: 'One', email: 'one@example.test' };
const { id: _id, ...PERSON } = USER;
const consentOf = (accessToken: string): Consent => ({
  ...{ userId: USER.id, app: APP, scopes: ['openid'], account: { subject: 's1' } },
  response: {
    ...{ accessToken, refreshToken: 'r' },
    ...{ idToken: undefined, scopes: undefined, expiresInSeconds: 60, claims: undefined },
  },
});
const WANTED = { scopes: ['bin:read' as const], apps: [], users: 'none' as const, networks: [], expiresAt: 9e15 };
const RELAY_TOKEN = { ...relayPolicySchema.parse(WANTED), binCallsPerMonth: null };
const REPORT = { shape: 'bin-list-data', taken: 1, skipped: 0, faults: [] };
const silent = { note: () => undefined };
const ids = { account: newServiceAccountId(), webhook: newWebhookId(), token: newOpaqueTokenId() };

/** A store, and the clock of the modules that use it. */
interface StoreAndClock {
  store: Store;
  clock: () => number;
  pass(milliseconds: number): void;
}

const WEBHOOK = { url: 'https://hook.test/', events: ['connection.created' as const], enabled: true };
const IN_STORE = { hasEnded: async () => false, end: async () => undefined };

const sessionData = () =>
  ({ cookie: { originalMaxAge: null }, user: { ...USER, admin: false }, csrfToken: 'c', app: APP.id }) as SessionData;
const listsOf = (desk: StoreAndClock) => createSessionLists({ ...desk, maxSeconds: 3_600 });
const sessionsOf = (desk: StoreAndClock) =>
  createSessionRecords({
    ...desk,
    ...{ sealedJson, lists: listsOf(desk), lifetimes: { idleSeconds: 1_800, maxSeconds: 3_600 } },
  });
const pendingRequestOf = ({ clock }: StoreAndClock) => ({
  ...{
    purpose: 'sign_in' as const,
    appId: APP.id,
    appFingerprint: 's',
    returnTo: '/',
    attempt: 'a',
    startedAt: clock(),
  },
});
const pendingRequestsOf = (desk: StoreAndClock) => createPendingRequests({ ...desk, sealedJson, home: '/' });
const grantsOf = (desk: StoreAndClock) => createGrantStore({ ...desk, sealedJson });
const revocationsOf = (desk: StoreAndClock) =>
  createRevocations({
    ...desk,
    ...{ sealedJson, grants: grantsOf(desk), findApp: () => APP, events: {} as Events, random: () => 0.5 },
    provider: { revoke: async () => ({ outcome: 'unconfirmed' }) },
  });
const signInsOf = (desk: StoreAndClock) => createRecordStore(desk);
const accountsOf = (desk: StoreAndClock) => createServiceAccounts({ ...desk, sealedJson });
const webhooksOf = (desk: StoreAndClock) => createWebhookStore({ ...desk, sealedJson });
const messagesOf = (desk: StoreAndClock) =>
  createWebhookMessages({
    ...desk,
    ...{ webhooks: webhooksOf(desk), healths: createWebhookHealths(desk), audit: silent, random: () => 0.5 },
    onLost: () => undefined,
    outbound: { fetch: async () => new Response('', { status: 500 }) },
  });
const planAccountsOf = (desk: StoreAndClock) => createAccounts({ ...desk, randomBytes });

async function observe(desk: StoreAndClock, refreshToken: string | undefined): Promise<void> {
  const observations = createObservations(desk);
  observations.record(APP, { refreshToken } as TokenResponse, undefined);
  await until(async () => (await observations.read(APP.id))?.refreshToken === (refreshToken !== undefined));
}

async function withRegistry(desk: StoreAndClock, work: (registry: AppRegistry) => Promise<unknown>): Promise<void> {
  const registry = await createAppRegistry({ ...desk, sealedJson, apps: createCurrentApps([]) });
  await work(registry);
  await registry.close();
}

async function withTokens(desk: StoreAndClock, work: (tokens: RelayTokens) => Promise<unknown>): Promise<void> {
  const tokens = await createRelayTokens({ ...desk, sealedJson });
  await work(tokens);
  await tokens.close();
}

async function tallied(desk: StoreAndClock): Promise<void> {
  const tallies = createTallies(desk);
  tallies.count('relay.answered');
  await tallies.close();
}

async function answered(desk: StoreAndClock, failure: string | undefined): Promise<void> {
  const tally = createBinTally(desk);
  tally.serviceResponded(failure);
  await tally.close();
}

async function used(desk: StoreAndClock): Promise<void> {
  await desk.store.write([{ put: keys.grant('u9', APP.id), value: 'a grant' }]);
  const uses = createRelayUses({ ...desk, audit: silent, isApp: () => true });
  const call = { app: APP.id, userId: 'u9', result: 'answered' as const, address: '192.0.2.1', requestId: 'r' };
  uses.note({ token: { id: 't', name: 'one' }, scope: 'threads:read', ...call });
  await uses.close();
}

/** Returns the record's content; undefined if it is not JSON. */
async function opened(key: string, value: string): Promise<unknown> {
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
async function extend(store: Store, kind: string): Promise<[key: string, StoredRecord][]> {
  const extended: [string, StoredRecord][] = [];
  for (const record of (await Array.fromAsync(store.walk())).flat()) {
    const content = kindOf(record.key) === kind ? await opened(record.key, record.value) : undefined;
    if (typeof content !== 'object' || content === null) continue;
    const text = JSON.stringify(withField(content));
    const value = sealer.kidOf(record.value) === undefined ? text : await sealer.seal(text, record.key);
    await store.write([{ put: record.key, value, lifetimeSeconds: 'unchanged' }]);
    extended.push([record.key, { value, version: record.version }]);
  }
  return extended;
}

function withField(content: object): object {
  const parts = Object.entries(content);
  const isMap = parts.every(([, part]) => typeof part === 'object' && part !== null && !Array.isArray(part));
  if (Array.isArray(content)) return content.map(withField);
  if (isMap) return Object.fromEntries(parts.map(([name, part]) => [name, withField(part)]));
  return { ...content, [FIELD]: FIELD };
}

const fieldsIn = (content: unknown): number => JSON.stringify(content).split(`"${FIELD}":"${FIELD}"`).length - 1;

/** For each kind of record that is read, changed and written again: how to create and how to change one. */
const CHANGED: Readonly<
  Record<string, { make(desk: StoreAndClock): Promise<unknown>; change?(desk: StoreAndClock): Promise<unknown> }>
> = {
  schema: {
    make: ({ store }) => agreeOnSchema(store, SCHEMA),
    change: ({ store }) => agreeOnSchema(store, { ...SCHEMA, version: SCHEMA.version + 1 }),
  },
  user: {
    make: (desk) => createUserStore(desk).noteSignIn(USER),
    async change(desk) {
      const users = createUserStore(desk);
      await users.noteSignIn({ ...USER, name: 'Another' });
      await users.setDisabled(USER.id, true);
      await users.setDisabled(USER.id, false);
    },
  },
  session: {
    make: (desk) => sessionsOf(desk).write('id', sessionData()),
    async change(desk) {
      desk.pass(120_000);
      const session = await sessionsOf(desk).read('id', { extend: true });
      await sessionsOf(desk).write('id', { ...sessionData(), ...(session && dataOf(session)), address: '192.0.2.1' });
    },
  },
  'sessions-of': {
    make: (desk) => listsOf(desk).add(keys.sessionsOfUser('u2'), { hash: 'h', startedAt: desk.clock() }, 1, IN_STORE),
    change: (desk) => listsOf(desk).add(keys.sessionsOfUser('u2'), { hash: 'i', startedAt: desk.clock() }, 1, IN_STORE),
  },
  'pending-requests': {
    make: (desk) => pendingRequestsOf(desk).put('browser', 'one', pendingRequestOf(desk)),
    change: (desk) => pendingRequestsOf(desk).put('browser', 'two', pendingRequestOf(desk)),
  },
  grant: {
    make: (desk) => grantsOf(desk).save(consentedGrant(consentOf('a1'), undefined, 'c1', desk.clock()), 0),
    async change(desk) {
      const stored = await grantsOf(desk).loadStored(USER.id, APP.id);
      if (!stored || 'unreadable' in stored) throw new Error('The grant is gone.');
      await grantsOf(desk).save(consentedGrant(consentOf('a2'), stored.grant, 'c2', desk.clock()), stored.version);
    },
  },
  revocation: {
    make: (desk) => revocationsOf(desk).plan({ userId: USER.id, ...OF_APP, token: 't', hint: 'refresh_token' }),
    async change(desk) {
      const [pending] = await revocationsOf(desk).pendingOf(USER.id);
      expect(await revocationsOf(desk).attempt(APP, USER.id, pending?.id ?? '')).toMatchObject({
        outcome: 'pending',
      });
    },
  },
  observation: {
    make: (desk) => observe(desk, 'rt'),
    change: (desk) => observe(desk, undefined),
  },
  'connected-app': {
    make: (desk) => withRegistry(desk, (registry) => registry.create(APP, 'secret')),
    change: (desk) =>
      withRegistry(desk, async (registry) => {
        const before = await registry.find(APP.id);
        if (before) await registry.replace(before, { ...APP, name: 'Renamed' }, 'kept');
      }),
  },
  'own-keys': {
    make: (desk) => createOwnKeys({ ...desk, sealedJson }).rotate(),
    async change(desk) {
      desk.pass(DAY);
      await createOwnKeys({ ...desk, sealedJson }).rotate();
    },
  },
  'sign-in': {
    make: (desk) => signInsOf(desk).add('state', { steps: [], reference: 'aaaaaaaa', app: APP.id }),
    change: (desk) => signInsOf(desk).add('state', { steps: [], reference: 'bbbbbbbb', outcome: 'failed' }),
  },
  'disconnect-job': {
    make: ({ store, clock }) =>
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
    make: ({ store }) =>
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
  tally: { make: tallied, change: tallied },
  'bin-lookup-service-health': {
    make: (desk) => answered(desk, 'timeout'),
    change: (desk) => answered(desk, undefined),
  },
  'bin-dataset': {
    make: (desk) => createStoredDatasets(desk).save(datasetOf(), REPORT),
    async change(desk) {
      const stored = createStoredDatasets(desk);
      await stored.save(datasetOf(), REPORT);
      await stored.rollback((await stored.versions())?.previous?.id ?? '');
    },
  },
  'relay-token': {
    make: (desk) => withTokens(desk, (tokens) => tokens.create(ids.token, { ...RELAY_TOKEN, name: 'one' })),
    change: (desk) =>
      withTokens(desk, async (tokens) => {
        const { version = 0 } = (await tokens.find(ids.token)) ?? {};
        await tokens.change(ids.token, version, { ...RELAY_TOKEN, name: 'two' });
        await tokens.rotate(ids.token, 60);
      }),
  },
  'relay-uses-of': { make: used, change: used },
  'service-account': {
    make: (desk) =>
      accountsOf(desk).create({
        id: ids.account,
        name: 'one',
        app: APP.id,
        apiToken: 't',
        platform: 'https://p.test',
      }),
    async change(desk) {
      const { version = 0 } = (await accountsOf(desk).find(ids.account)) ?? {};
      await accountsOf(desk).change(ids.account, version, { name: 'two' });
    },
  },
  webhook: {
    make: (desk) => webhooksOf(desk).create(ids.webhook, WEBHOOK),
    async change(desk) {
      const { version = 0 } = (await webhooksOf(desk).find(ids.webhook)) ?? {};
      await webhooksOf(desk).change(ids.webhook, version, { ...WEBHOOK, url: 'https://other.test/' });
    },
  },
  'webhook-message': {
    async make(desk) {
      messagesOf(desk).announce('connection.created', { user: USER.id, app: APP.id });
      const listed = () => messagesOf(desk).page(ids.webhook, { limit: 1 });
      await until(async () => (await listed()).items.length > 0);
    },
    change: (desk) => messagesOf(desk).deliver(),
  },
  'plan-account': {
    make: (desk) => planAccountsOf(desk).register(PERSON),
    async change(desk) {
      const { id } = await planAccountsOf(desk).register({ ...PERSON, name: 'Another' });
      await planAccountsOf(desk).requestPlan(id, { name: 'p', monthlyRequests: 1 });
      await planAccountsOf(desk).confirmPlan(id);
      await planAccountsOf(desk).createKey(id, { name: 'k', networks: [] });
    },
  },
};

/** Kinds that are written only once, or whose writes replace the whole record. */
const REPLACED_KINDS = (
  'key-check out-of-service session-id-token logout-token problem flash last-use bin connected-apps-change admin-token ' +
  'admin-token-use sign-in-alias bin-lookup-service-pause relay-token-use api-key plan-sign-ins submission connection-check ' +
  'connection-id connect-link connect-ticket bin-dataset-upload webhook-response webhook-failing app-check ' +
  'app-registration erased-user narrowing'
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
  const kinds = RECORD_KINDS.filter((kind) => !(kind in CHANGED) && !REPLACED_KINDS.includes(kind));
  expect(kinds.toSorted()).toEqual(UNTESTED_KINDS);
});

describe('F29: a field that this version does not know survives a write of', () => {
  let place: TestStorage;
  beforeAll(async () => {
    place = await createTestStorage('SQLite');
  });
  afterAll(() => place?.dispose());

  test.for(Object.entries(CHANGED))('%s', async ([name, { make, change = make }]) => {
    await place.withStore(async (store) => {
      let now = Date.now();
      const desk: StoreAndClock = { store, clock: () => now, pass: (milliseconds) => (now += milliseconds) };
      await make(desk);
      const extended = await extend(store, name);
      expect(extended).not.toEqual([]);
      await change(desk);
      let changed = false;
      for (const [key, { value: before }] of extended) {
        const after = await store.get(key);
        expect(after && fieldsIn(await opened(key, after.value)), key).toBe(fieldsIn(await opened(key, before)));
        changed ||= after?.value !== before;
      }
      expect(changed).toBe(true);
    });
  });
});
