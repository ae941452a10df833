/**
 * Reads an audit export, and writes a command for everything that was ended after a backup and that a restore brought
 * back.
 */
import { z } from 'zod';
import { AppError } from '../../shared/errors.ts';
import { fileFault } from '../../shared/file-fault.ts';
import { type ConnectedApp, connectedAppSchema } from '../../shared/provider/connected-app.ts';
import type { UserSessions } from '../../shared/sessions/user-sessions.ts';
import { keys } from '../../shared/storage/keys.ts';
import { isOpaqueTokenId } from '../../shared/storage/opaque-token.ts';
import type { SealedJson } from '../../shared/storage/sealed-json.ts';
import type { Store } from '../../shared/storage/store.ts';
import { shellQuoted } from '../../shared/text.ts';
import { type AuditEvent, DELETIONS } from '../audit/kinds.ts';
import type { User } from '../users/user-store.ts';
import { readEntries } from './json-entries.ts';

/** A record that a restore brought back, and the command that ends it again. */
export interface EndedAgain {
  /** When it was ended (ISO 8601, UTC). */
  at: string;
  event: AuditEvent;
  line: string;
}

/** The storage after the restore. */
export interface RestoredStorage {
  store: Pick<Store, 'get' | 'count'>;
  sealedJson: Pick<SealedJson, 'open'>;
  sessions: Pick<UserSessions, 'count' | 'list'>;
}

interface Step {
  /** The record that the entry concerns. */
  about: string;
  /** Returns the line if the storage has the record again. Undefined for an entry that enabled the record. */
  find?: ((restored: RestoredStorage) => Promise<string | undefined>) | undefined;
  /** Records whose line ends this one as well. */
  coveredBy?: readonly string[];
}

type ReadStep = Step & { at: string; event: AuditEvent; requestId: string | undefined };

const ENTRY = z.looseObject({
  id: z.string(),
  at: z.iso.datetime(),
  event: z.string(),
  actor: z.looseObject({ kind: z.string() }),
  target: z.looseObject({ kind: z.string(), id: z.string() }).optional(),
  userId: z.string().optional(),
  requestId: z.string().optional(),
  outcome: z.string().optional(),
});

type Entry = z.infer<typeof ENTRY>;

/** The form of every id of Gatehouse. Lines contain no other text of an export. */
const ID = /^[A-Za-z0-9_-]{1,64}$/;

/**
 * @param since only later entries are used, in milliseconds since the epoch
 * @throws AppError if the file is not an export of the audit trail
 */
export async function readEnded(file: string, since: number): Promise<ReadStep[]> {
  const steps = new Map<string, ReadStep[]>();
  let count = 0;
  try {
    for await (const { line, entry } of readEntries(file, () => undefined)) {
      const parsed = ENTRY.safeParse(entry);
      if (!parsed.success) throw notAnExport(file, `line ${line} is not an entry`);
      count += 1;
      if (Date.parse(parsed.data.at) >= since) add(steps, parsed.data);
    }
  } catch (error) {
    const detail = error instanceof AppError ? undefined : fileFault(error, file);
    throw detail === undefined ? error : new AppError('invalid_request', { detail, cause: error });
  }
  if (count === 0) throw notAnExport(file, 'it has no entry');
  const lastSteps = [...steps.values()].flatMap((list) => list.at(-1) ?? []);
  return lastSteps
    .filter(({ find }) => find !== undefined)
    .sort((left, right) => Date.parse(left.at) - Date.parse(right.at));
}

/** The records that the storage has again, in the order in which they were ended. */
export async function endedAgain(ended: readonly ReadStep[], restored: RestoredStorage): Promise<EndedAgain[]> {
  const restoredSteps: (EndedAgain & Step)[] = [];
  for (const step of ended) {
    const line = await step.find?.(restored);
    if (line !== undefined) restoredSteps.push({ ...step, line });
  }
  const about = new Set(restoredSteps.map((step) => step.about));
  return restoredSteps
    .filter(({ coveredBy = [] }) => !coveredBy.some((record) => about.has(record)))
    .map(({ at, event, line }) => ({ at, event, line }));
}

function add(steps: Map<string, ReadStep[]>, entry: Entry): void {
  const { at, event, requestId, outcome } = entry;
  const step = stepOf(event, entry);
  if (!step) return;
  const earlier = steps.get(step.about) ?? [];
  // An entry of the same request announced the change before it failed.
  const announced = earlier.findLastIndex((announcement) => announcement.requestId === requestId);
  // If the result is unknown, an end counts as made and an enabling as not made.
  const isUndone = outcome === 'not_done' || (outcome === 'unknown' && step.find === undefined);
  if (isUndone && announced !== -1) steps.set(step.about, earlier.toSpliced(announced, 1));
  // The last two steps are enough: the last one, and the one before it in case the last was not made.
  else if (!isUndone && outcome !== 'unknown')
    steps.set(step.about, [...earlier.slice(-1), { ...step, at, event: event as AuditEvent, requestId }]);
}

/** Returns the line that deletes the record with this key. */
const deletion =
  (key: string, ...path: string[]): Step['find'] =>
  async ({ store }) =>
    (await store.get(key)) ? curl('DELETE', path) : undefined;

const signOut = (userId: string | undefined): Step | undefined =>
  isId(userId)
    ? {
        about: `sessions of ${userId}`,
        find: async ({ sessions }) =>
          (await sessions.list(userId)).length > 0 ? curl('POST', ['users', userId, 'sign-out']) : undefined,
        coveredBy: ['sessions', `user ${userId}`],
      }
    : undefined;

const recordDeleted = (event: Deletion, { target }: Entry): Step | undefined => {
  const { key, path } = DELETIONS[event];
  return isId(target?.id)
    ? { about: `${path} ${target.id}`, find: deletion(key(target.id), path, target.id) }
    : undefined;
};

const user = ({ target }: Entry): Step | undefined =>
  isId(target?.id)
    ? { about: `user ${target.id}`, find: deletion(keys.user(target.id), 'users', target.id) }
    : undefined;

/** Events without a line: they end nothing that a restore brings back, or only reduce it (docs/backup.md). */
type EndsNothing =
  | `${string}.${'created' | 'changed' | 'rotated' | 'refused' | 'failed' | 'imported' | 'exported'}`
  | 'sign_in.succeeded'
  | 'session.end_refused'
  | `connection.${'recovered' | 'reconnect_needed'}`
  | `revocation.${'pending' | 'confirmed' | 'abandoned'}`
  | `connected_app.${'secret_replaced' | 'reconnect_needed' | 'checked' | 'registered' | 'deregistered'}`
  | 'relay_token.exchanged'
  | 'relay.used'
  | 'admin.stepped_up'
  | `webhook.${'tested' | 'message_resent'}`
  | `bin_dataset.${'uploaded' | 'discarded' | 'rolled_back'}`
  | `encryption_key.${'rotation_started' | 'forgotten'}`
  | `storage.${'found_empty' | 'backed_up' | 'restored' | 'moved'}`
  | 'setup.step_dismissed'
  | 'settings.reloaded';

type Deletion = keyof typeof DELETIONS;
type Ending = Exclude<AuditEvent, EndsNothing | Deletion>;

const STEPS: Record<Ending, (entry: Entry) => Step | undefined> = {
  'user.deletion_started': user,
  'user.deleted': user,
  'user.disabled': ({ target }) => {
    const id = target?.id;
    if (!isId(id)) return undefined;
    const find: Step['find'] = async ({ store }) => {
      const record = await store.get(keys.user(id));
      const isEnabled = record && (JSON.parse(record.value) as User).disabledAt === undefined;
      return isEnabled ? curl('POST', ['users', id, 'disable']) : undefined;
    };
    return { about: `state of user ${id}`, find };
  },
  'user.enabled': ({ target }) => ({ about: `state of user ${target?.id}` }),

  'session.signed_out': ({ target }) => signOut(target?.id),
  'session.ended_everywhere': ({ target }) => signOut(target?.id),
  'session.ended_by_provider': ({ userId }) => signOut(userId),
  'session.ended': ({ target, userId }) => {
    const ref = target?.id.split('.').at(-1);
    if (!isId(ref) || !isId(userId)) return undefined;
    const find: Step['find'] = async ({ sessions }) =>
      (await sessions.list(userId)).some((session) => session.ref === ref)
        ? curl('DELETE', ['sessions', `${userId}.${ref}`])
        : undefined;
    return {
      about: `session ${userId}.${ref}`,
      find,
      coveredBy: ['sessions', `user ${userId}`, `sessions of ${userId}`],
    };
  },
  'session.all_ended': () => ({
    about: 'sessions',
    find: async ({ sessions }) => ((await sessions.count()) > 0 ? command('sessions end --all') : undefined),
  }),

  'connection.removed': ({ target }) => {
    const [userId, app] = target?.id.split('/') ?? [];
    if (!isId(userId) || !isId(app)) return undefined;
    const find = deletion(keys.grant(userId, app), 'connections', `${userId}.${app}`);
    return { about: `connection ${userId}.${app}`, find, coveredBy: [`user ${userId}`, `connections of ${app}`] };
  },
  'connection.all_removed': ({ target }) => {
    const app = target?.id;
    if (!isId(app)) return undefined;
    const find: Step['find'] = async ({ store }) =>
      (await store.count(keys.connections('app', app))) > 0
        ? curl('POST', ['connected-apps', app, 'disconnect-everyone'])
        : undefined;
    return { about: `connections of ${app}`, find };
  },

  'admin_token.revoked': ({ target }) => {
    const id = target?.id ?? '';
    if (!isOpaqueTokenId(id)) return undefined;
    const find: Step['find'] = async ({ store }) =>
      (await store.get(keys.adminToken(id))) ? command(`admin-tokens revoke ${id}`) : undefined;
    return { about: `admin-tokens ${id}`, find };
  },

  'connected_app.disabled': ({ target }) => {
    const id = target?.id;
    return isId(id) ? { about: `state of app ${id}`, find: (restored) => disabling(id, restored) } : undefined;
  },
  'connected_app.enabled': ({ target }) => ({ about: `state of app ${target?.id}` }),
};

function stepOf(event: string, entry: Entry): Step | undefined {
  if (Object.hasOwn(DELETIONS, event)) return recordDeleted(event as Deletion, entry);
  return Object.hasOwn(STEPS, event) ? STEPS[event as Ending](entry) : undefined;
}

/** The API requires a whole registration. An app that cannot be decrypted cannot be used, so it needs no line. */
async function disabling(id: string, { store, sealedJson }: RestoredStorage): Promise<string | undefined> {
  const key = keys.connectedApp(id);
  const record = await store.get(key);
  if (!record) return undefined;
  const { app } = (await sealedJson.open<{ app: ConnectedApp }>(record.value, key)) ?? {};
  if (!app || app.disabled) return undefined;
  const registration = Object.entries(app).filter(([name]) => name in connectedAppSchema.shape);
  const body = { ...Object.fromEntries(registration), disabled: true, version: record.version };
  return curl('PUT', ['connected-apps', id], body);
}

function isId(text: string | undefined): text is string {
  return text !== undefined && ID.test(text);
}

const command = (words: string): string => `npm run -s gatehouse -- ${words}`;

function curl(method: string, path: readonly string[], body?: object): string {
  const data = body ? ` -H 'Content-Type: application/json' -d ${shellQuoted(JSON.stringify(body))}` : '';
  return `curl -fsS -X ${method} -H "Authorization: Bearer $ADMIN_TOKEN" "$GATEHOUSE/admin/api/${path.join('/')}"${data}`;
}

function notAnExport(file: string, reason: string): AppError {
  const detail = `${file} is not an export of the audit trail: ${reason}. Create one with: npm run -s gatehouse -- audit export`;
  return new AppError('invalid_request', { detail });
}
