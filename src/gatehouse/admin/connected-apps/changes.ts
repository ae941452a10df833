/** Checks, audits and stores changes of connected apps by administrators. */
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
  changeFacts,
  connectedUsers,
  movedFaults,
  revertMove,
  secretAfter,
  secretFaults,
  sharedIssuerFaults,
} from '../../connected-apps/change-rules.ts';
import type { CurrentApps } from '../../connected-apps/current-apps.ts';
import type { Withdrawal } from '../../connected-apps/dynamic-registration.ts';
import { addressFaults, coherenceFaults, ownCallbackFaults } from '../../connected-apps/registration-rules.ts';
import type { ScheduledChecks } from '../../connected-apps/scheduled-checks.ts';
import type { ConnectLinks } from '../../grants/connect-links.ts';
import type { EndedBy } from '../../grants/connections.ts';
import { audited } from '../change.ts';
import type { ChangedApp, NewApp } from './view.ts';
import type { Withdraw } from './withdrawal.ts';

/** `withdrawal` is set only if Gatehouse had registered the app at the provider. */
export type RemovedApp = { withdrawal?: never; clientId?: never } | { withdrawal: Withdrawal; clientId: string };

/** All methods throw AppError `invalid_request` with faults, `not_found` or `version_conflict`. */
export interface ConnectedAppChanges {
  /** Checks a new app as `create` does, and stores nothing. */
  checkNew(app: NewApp): Promise<void>;
  /** Returns whether an app has the id, even one whose record cannot be opened. */
  isTaken(id: string): Promise<boolean>;
  /** Creates an app. @param extras the values of the provider, if it registered the app */
  create(req: Request, app: NewApp, extras?: RegistrationExtras): Promise<RegisteredApp>;
  /** @param ask is called for a valid change, and throws if the administrator is to be asked first */
  replace(req: Request, id: string, app: ChangedApp, ask?: () => Promise<void>): Promise<RegisteredApp>;
  /**
   * Deletes an app unless users are connected, and a registration that Gatehouse made at the provider there, too.
   * @param version undefined for any version
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
  /** Ends the connections that users created while the app was being deleted. */
  endRemaining: (app: ConnectedApp, by: EndedBy) => Promise<void>;
  checks: Pick<ScheduledChecks, 'forget' | 'start'>;
  publicHref: string;
}): ConnectedAppChanges {
  const { apps, registry, audit, examine, withdraw, countConnections, countSetAside, links, endRemaining, checks } =
    parts;
  const { publicHref } = parts;

  const check = async (
    registration: ConnectedAppRegistration,
    before: ConnectedApp | undefined,
    otherFaults: InputFault[],
  ): Promise<void> => {
    const faults = [
      ...coherenceFaults(registration),
      ...ownCallbackFaults(registration, publicHref, before?.callbackUrls),
      ...(await addressFaults(registration, examine)),
      ...sharedIssuerFaults(registration, apps.list()),
      ...otherFaults,
    ];
    refuseIf(faults);
  };

  const refuseConnected = async (id: string): Promise<void> => {
    const count = await countConnections(id);
    if (count === 0) return;
    const detail = `${connectedUsers(count)} with this app: disconnect everyone first. This revokes their access at the provider.`;
    throw new AppError('invalid_request', { detail, faults: [{ pointer: '#', rule: 'has_connections', detail }] });
  };

  const findChangeable = async (id: string): Promise<RegisteredApp> => {
    if (registry.isFromFile(id)) {
      throw new AppError('invalid_request', {
        detail: 'This app is in CONNECTED_APPS_FILE. Change it there.',
        faults: [{ pointer: '#/id', rule: 'from_file', detail: 'Change it in CONNECTED_APPS_FILE.' }],
      });
    }
    const registered = await registry.find(id);
    if (!registered) throw new AppError('not_found', { detail: 'There is no connected app with this id.' });
    return registered;
  };

  const isTaken = async (id: string): Promise<boolean> =>
    registry.isFromFile(id) || (await registry.isUnreadable(id)) || (await registry.find(id)) !== undefined;

  const checkNew = async ({ clientSecret: _, ...registration }: NewApp): Promise<void> => {
    const { id } = registration;
    const isFree = !(await isTaken(id));
    await check(registration, undefined, [
      ...(isFree ? [] : [TAKEN]),
      ...(isFree ? await movedFaults(undefined, registration, countSetAside) : []),
    ]);
  };

  return {
    checkNew,
    isTaken,

    async create(req, { clientSecret, ...registration }, extras) {
      const { id, name } = registration;
      await checkNew({ clientSecret, ...registration });
      const entry = { event: 'connected_app.created', target: { kind: 'connected_app', id, name } } as const;
      return audited(audit, req, entry, async () => {
        const created = await registry.create(registration, clientSecret, extras);
        if (!created) throw conflict();
        return created;
      });
    },

    async replace(req, id, { version, clientSecret, ...fields }, ask) {
      const current = await findChangeable(id);
      if (current.version !== version) throw conflict();
      const registration = { ...fields, id };
      await check(registration, current.app, [
        ...(fields.id === undefined || fields.id === id ? [] : [FIXED_ID]),
        ...secretFaults(registration, clientSecret, current.app),
        ...(await movedFaults(current.app, registration, countSetAside)),
      ]);
      await ask?.();
      const changed = changedFields(current.app, registration, clientSecret);
      const target = { kind: 'connected_app', id, name: registration.name };
      const replaced = await audited(
        audit,
        req,
        { event: eventOfChange(registration, changed), target, facts: changeFacts(current.app, registration, changed) },
        async () => {
          const replaced = await registry.replace(current, registration, secretAfter(registration, clientSecret));
          if (!replaced) throw conflict();
          refuseIf(await revertMove(registry, current, registration, countSetAside));
          return replaced;
        },
      );
      if (!registration.disabled) checks.start(replaced.app);
      return replaced;
    },

    async remove(req, id, version) {
      if (!registry.isFromFile(id)) {
        if (await removeUnreadable(req, id)) return {};
        // An earlier deletion may have removed the app without getting the response of the storage.
        if (!(await registry.find(id))) await forget(id);
      }
      const { app, version: currentVersion, management } = await findChangeable(id);
      if (version !== undefined && version !== currentVersion) throw conflict();
      await refuseConnected(id);
      const target = { kind: 'connected_app', id, name: app.name };
      await audited(audit, req, { event: 'connected_app.deleted', target }, async () => {
        if (!(await removeFromRegistry(id, currentVersion))) throw conflict();
      });
      const { actor: by, ...origin } = actorOf(req);
      let withdrawal: Withdrawal | undefined;
      try {
        await Promise.all([forget(id), endRemaining(app, { by, origin })]);
      } finally {
        // This also runs if the storage failed, because nothing would repeat it later.
        withdrawal = management && (await withdraw(req, app, management));
      }
      return withdrawal ? { withdrawal, clientId: app.clientId } : {};
    },
  };

  /** Deletes the other records of a deleted app, except connections. */
  async function forget(id: string): Promise<void> {
    await Promise.all([links.revokeAll('app', id), checks.forget(id)]);
  }

  /**
   * Removes the app. If the storage did not respond in time, reads the app again: if the app is gone, its other records
   * must be deleted, too.
   */
  async function removeFromRegistry(id: string, version: number): Promise<boolean> {
    try {
      return await registry.remove(id, version);
    } catch (error) {
      if (await retryWhileUnavailable(() => registry.find(id), READ_AGAIN_MS)) throw error;
      return true;
    }
  }

  /** Deletes an app whose encryption key is missing, unless users are connected. @returns false for any other app */
  async function removeUnreadable(req: Request, id: string): Promise<boolean> {
    if (!(await registry.isUnreadable(id))) return false;
    await refuseConnected(id);
    const entry = { event: 'connected_app.deleted', target: { kind: 'connected_app', id } } as const;
    const isRemoved = await audited(audit, req, entry, () => registry.removeUnreadable(id));
    await forget(id);
    return isRemoved;
  }
}

/** Redis refuses commands for a moment after a late response. */
const READ_AGAIN_MS = 3_000;

const TAKEN: InputFault = { pointer: '#/id', rule: 'taken', detail: 'Another app has this id. Choose another one.' };
const FIXED_ID: InputFault = { pointer: '#/id', rule: 'fixed', detail: 'The id of an app never changes.' };

/** Returns the audit event of a change. @param changed the names of the changed fields */
export function eventOfChange({ disabled }: ConnectedAppRegistration, changed: readonly string[]): AuditEvent {
  const [field, ...others] = changed;
  if (others.length > 0) return 'connected_app.changed';
  if (field === 'clientSecret') return 'connected_app.secret_replaced';
  if (field === 'disabled') return disabled ? 'connected_app.disabled' : 'connected_app.enabled';
  return 'connected_app.changed';
}

/** @throws AppError `invalid_request` with the faults */
function refuseIf(faults: readonly InputFault[]): void {
  if (faults.length === 0) return;
  throw new AppError('invalid_request', {
    detail: 'This registration is not valid: "errors" says where and why.',
    faults: faults.map((fault) => ({ ...fault, detail: capitalised(fault.detail) })),
  });
}

function conflict(): AppError {
  return new AppError('version_conflict', {
    detail: 'Another administrator has changed this app in the meantime. Read it again and repeat the change.',
  });
}
