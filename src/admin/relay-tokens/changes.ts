/** Every change of relay tokens by an administrator, whether by page or by API: judged, written to the audit trail, then made. */
import type { Request } from 'express';
import type { AuditTrail } from '../../audit/trail.ts';
import type { AppStore } from '../../connected-apps/app-store.ts';
import { AppError } from '../../errors.ts';
import type { RelayToken, RelayTokens, WantedRelayToken } from '../../relay/relay-token.ts';
import { newOpaqueTokenId } from '../../storage/opaque-token.ts';
import { isoTime } from '../../time.ts';
import { audited } from '../change.ts';

/** `text` is what the service keeps, and the only time that it is told. */
export interface MadeRelayToken {
  token: RelayToken;
  text: string;
}

/** Where there is no such token they all throw the AppError `not_found`, and for faulty input `invalid_request`. */
export interface RelayTokenChanges {
  find(id: string): Promise<RelayToken>;
  create(req: Request, input: WantedRelayToken): Promise<MadeRelayToken>;
  /** @throws AppError `version_conflict` */
  change(req: Request, id: string, version: number, input: WantedRelayToken): Promise<RelayToken>;
  rotate(req: Request, id: string, overlapSeconds: number): Promise<MadeRelayToken>;
  revoke(req: Request, id: string): Promise<void>;
}

export function relayTokenChanges(parts: {
  tokens: RelayTokens;
  apps: AppStore;
  trail: AuditTrail;
  clock: () => number;
}): RelayTokenChanges {
  const { tokens, apps, trail, clock } = parts;

  const find = async (id: string): Promise<RelayToken> => (await tokens.find(id)) ?? unknown();

  /** What the schema alone cannot judge. */
  const judge = (input: WantedRelayToken): void => {
    const faults = input.apps.flatMap((id, at) =>
      apps.find(id)
        ? []
        : [{ pointer: `#/apps/${at}`, rule: 'unknown_app', detail: 'There is no connected app with this id.' }],
    );
    const detail = 'Give a time that is to come.';
    if (input.expiresAt <= clock()) faults.push({ pointer: '#/expiresAt', rule: 'invalid', detail });
    if (faults.length === 0) return;
    throw new AppError('invalid_request', {
      detail: 'What was sent is not as it should be: "errors" says where.',
      faults,
    });
  };

  return {
    find,
    create(req, input) {
      judge(input);
      const id = newOpaqueTokenId();
      const entry = { event: 'relay_token.created' as const, target: targetOf({ id, name: input.name }) };
      return audited(trail, req, { ...entry, facts: factsOf(input) }, () => tokens.create(id, input));
    },
    async change(req, id, version, input) {
      judge(input);
      const entry = { event: 'relay_token.changed' as const, target: targetOf(await find(id)), facts: factsOf(input) };
      return (await audited(trail, req, entry, () => tokens.change(id, version, input))) ?? unknown();
    },
    async rotate(req, id, overlapSeconds) {
      const entry = {
        event: 'relay_token.rotated' as const,
        target: targetOf(await find(id)),
        facts: { overlapSeconds },
      };
      return (await audited(trail, req, entry, () => tokens.rotate(id, overlapSeconds))) ?? unknown();
    },
    async revoke(req, id) {
      const entry = { event: 'relay_token.revoked' as const, target: targetOf(await find(id)) };
      await audited(trail, req, entry, () => tokens.revoke(id));
    },
  };
}

function unknown(): never {
  throw new AppError('not_found', { detail: 'There is no relay token with this id.' });
}

function targetOf({ id, name }: Pick<RelayToken, 'id' | 'name'>) {
  return { kind: 'relay_token', id, name };
}

function factsOf({ users, expiresAt, ...input }: WantedRelayToken) {
  return {
    ...input,
    users: typeof users === 'string' ? users : `${users.length} listed`,
    expiresAt: isoTime(expiresAt),
  };
}
