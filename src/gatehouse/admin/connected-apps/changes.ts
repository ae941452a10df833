/** Changes of connected apps by administrators: each is checked as a whole, audited, and made once. */
import type { Request } from 'express';
import type { InputFault } from '../../../shared/config/input-faults.ts';
import { AppError } from '../../../shared/errors.ts';
import type { Outbound } from '../../../shared/outbound/outbound.ts';
import type { ConnectedApp, ConnectedAppRegistration } from '../../../shared/provider/connected-app.ts';
import { actorOf } from '../../../shared/sessions/actor.ts';
import { retryWhileUnavailable } from '../../../shared/storage/retry.ts';
import { capitalised } from '../../../shared/text.ts';
import type { ChangeTrail } from '../../audit/audit-change.ts';
import type { AuditEvent } from '../../audit/kinds.ts';
import type { AppRegistry, RegisteredApp, RegistrationExtras } from '../../connected-apps/app-registry.ts';
import {
  type CountSetAside,
  changedFields,
  connectedUsers,
  movedFaults,
  secretAfter,
  secretFaults,
  sharedIssuerFaults,
  takeBackMove,
} from '../../connected-apps/change-rules.ts';
import type { CurrentApps } from '../../connected-apps/current-apps.ts';
import type { Withdrawal } from '../../connected-apps/dynamic-registration.ts';
import { addressFaults, coherenceFaults } from '../../connected-apps/registration-rules.ts';
import type { ScheduledChecks } from '../../connected-apps/scheduled-checks.ts';
import type { ConnectLinks } from '../../grants/connect-links.ts';
import type { EndedBy } from '../../grants/connections.ts';
import { audited } from '../change.ts';
import type { ChangedApp, NewApp } from './view.ts';
import type { Withdraw } from './withdrawal.ts';

/** `withdrawal`: only if Gatehouse had registered the app at the provider. */
export type RemovedApp = { withdrawal?: never; clientId?: never } | { withdrawal: Withdrawal; clientId: string };

/** All throw AppError `invalid_request` with faults, `not_found` or `version_conflict`. */
export interface ConnectedAppChanges {
  /** Throws as `create` would; stores nothing. */
  checkNew(app: NewApp): Promise<void>;
  /** Also by an app that cannot be opened. */
  isTaken(id: string): Promise<boolean>;
  /** @param byProvider what the provider assigned, where it registered the app */
  create(req: Request, app: NewApp, byProvider?: RegistrationExtras): Promise<RegisteredApp>;
  replace(req: Request, id: string, app: ChangedApp): Promise<RegisteredApp>;
  /**
   * Refuses while users are connected. A registration that Gatehouse made at the provider is deleted there too.
   * @param version undefined: any version
   */
  remove(req: Request, id: string, version: number | undefined): Promise<RemovedApp>;
}

export function createConnectedAppChanges(parts: {
  apps: Pick<CurrentApps, 'list'>;
  registry: AppRegistry;
  audit: ChangeTrail;
  examine: Outbound['examine'];
  withdraw: Withdraw;
  countConnections: (appId: string) => Promise<number>;
  countSetAside: CountSetAside;
  links: Pick<ConnectLinks, 'revokeAll'>;
  /** Ends the connections of an app that was deleted a moment ago. */
  endRemaining: (app: ConnectedApp, by: EndedBy) => Promise<void>;
  checks: Pick<ScheduledChecks, 'forget'>;
}): ConnectedAppChanges {
  const { apps, registry, audit, examine, withdraw, countConnections, countSetAside, links, endRemaining, checks } =
    parts;

  const check = async (registration: ConnectedAppRegistration, others: InputFault[]): Promise<void> => {
    const faults = [
      ...coherenceFaults(registration),
      ...(await addressFaults(registration, examine)),
      ...sharedIssuerFaults(registration, apps.list()),
      ...others,
    ];
    refuseIf(faults);
  };

  const refuseConnected = async (id: string): Promise<void> => {
    const count = await countConnections(id);
    if (count === 0) return;
    const detail = `${connectedUsers(count)} with this app: disconnect everyone first, which revokes their access at the provider.`;
    throw new AppError('invalid_request', { detail, faults: [{ pointer: '#', rule: 'has_connections', detail }] });
  };

  const existing = async (id: string): Promise<RegisteredApp> => {
    if (registry.isFromFile(id)) {
      throw new AppError('invalid_request', {
        detail: 'This app is in CONNECTED_APPS_FILE: change it there.',
        faults: [{ pointer: '#/id', rule: 'from_file', detail: 'Change it in CONNECTED_APPS_FILE.' }],
      });
    }
    const found = await registry.find(id);
    if (!found) throw new AppError('not_found', { detail: 'There is no connected app with this id.' });
    return found;
  };

  const isTaken = async (id: string): Promise<boolean> =>
    registry.isFromFile(id) || (await registry.isUnreadable(id)) || (await registry.find(id)) !== undefined;

  const checkNew = async ({ clientSecret, ...registration }: NewApp): Promise<void> => {
    const { id } = registration;
    const isFree = !(await isTaken(id));
    await check(registration, [
      ...(isFree ? [] : [TAKEN]),
      ...secretFaults(registration, clientSecret, undefined),
      ...(isFree ? await movedFaults(undefined, registration, countSetAside) : []),
    ]);
  };

  return {
    checkNew,
    isTaken,

    async create(req, { clientSecret, ...registration }, byProvider) {
      const { id, name } = registration;
      await checkNew({ clientSecret, ...registration });
      const entry = { event: 'connected_app.created', target: { kind: 'connected_app', id, name } } as const;
      return audited(audit, req, entry, async () => {
        const made = await registry.create(registration, clientSecret, byProvider);
        if (!made) throw conflict();
        return made;
      });
    },

    async replace(req, id, { version, clientSecret, ...fields }) {
      const before = await existing(id);
      if (before.version !== version) throw conflict();
      const registration = { ...fields, id };
      await check(registration, [
        ...(fields.id === undefined || fields.id === id ? [] : [FIXED_ID]),
        ...secretFaults(registration, clientSecret, before.app),
        ...(await movedFaults(before.app, registration, countSetAside)),
      ]);
      const changed = changedFields(before.app, registration, clientSecret);
      const target = { kind: 'connected_app', id, name: registration.name };
      return audited(
        audit,
        req,
        { event: eventOfChange(registration, changed), target, facts: { changed } },
        async () => {
          const made = await registry.replace(before, registration, secretAfter(registration, clientSecret));
          if (!made) throw conflict();
          refuseIf(await takeBackMove(registry, before, registration, countSetAside));
          return made;
        },
      );
    },

    async remove(req, id, version) {
      if (!registry.isFromFile(id)) {
        if (await removedUnreadable(req, id)) return {};
        // The result of an earlier deletion may have been unknown.
        if (!(await registry.find(id))) await forget(id);
      }
      const { app, version: current, management } = await existing(id);
      if (version !== undefined && version !== current) throw conflict();
      await refuseConnected(id);
      const target = { kind: 'connected_app', id, name: app.name };
      await audited(audit, req, { event: 'connected_app.deleted', target }, async () => {
        if (!(await isRemoved(id, current))) throw conflict();
      });
      const { actor: by, ...origin } = actorOf(req);
      let withdrawal: Withdrawal | undefined;
      try {
        await Promise.all([forget(id), endRemaining(app, { by, origin })]);
      } finally {
        // Also if the storage failed: nothing would repeat it.
        withdrawal = management && (await withdraw(req, app, management));
      }
      return withdrawal ? { withdrawal, clientId: app.clientId } : {};
    },
  };

  /** What is stored about an app that is gone, apart from connections. */
  async function forget(id: string): Promise<void> {
    await Promise.all([links.revokeAll({ app: id }), checks.forget(id)]);
  }

  /** Reads the app again if the storage did not respond in time: it may be gone, and then the rest has to follow. */
  async function isRemoved(id: string, version: number): Promise<boolean> {
    try {
      return await registry.remove(id, version);
    } catch (error) {
      if (await retryWhileUnavailable(() => registry.find(id), READ_AGAIN_MS)) throw error;
      return true;
    }
  }

  /** An app that cannot be opened, because its key is gone, can only be deleted. As for others, connections are ended before. */
  async function removedUnreadable(req: Request, id: string): Promise<boolean> {
    if (!(await registry.isUnreadable(id))) return false;
    await refuseConnected(id);
    const entry = { event: 'connected_app.deleted', target: { kind: 'connected_app', id } } as const;
    const isDone = await audited(audit, req, entry, () => registry.removeUnreadable(id));
    await forget(id);
    return isDone;
  }
}

/** Redis refuses at once for a moment after a late response. */
const READ_AGAIN_MS = 3_000;

const TAKEN: InputFault = { pointer: '#/id', rule: 'taken', detail: 'Another app has this id: choose another.' };
const FIXED_ID: InputFault = { pointer: '#/id', rule: 'fixed', detail: 'The id of an app never changes.' };

/** @param changed names of fields */
export function eventOfChange({ disabled }: ConnectedAppRegistration, changed: readonly string[]): AuditEvent {
  const [only, ...others] = changed;
  if (others.length > 0) return 'connected_app.changed';
  if (only === 'clientSecret') return 'connected_app.secret_replaced';
  if (only === 'disabled') return disabled ? 'connected_app.disabled' : 'connected_app.enabled';
  return 'connected_app.changed';
}

/** @throws AppError `invalid_request` that names the faults */
function refuseIf(faults: readonly InputFault[]): void {
  if (faults.length === 0) return;
  throw new AppError('invalid_request', {
    detail: 'This registration is not valid: "errors" says where and why.',
    faults: faults.map((fault) => ({ ...fault, detail: capitalised(fault.detail) })),
  });
}

function conflict(): AppError {
  return new AppError('version_conflict', {
    detail: 'Someone else changed this app in the meantime. Read it again and repeat the change.',
  });
}
