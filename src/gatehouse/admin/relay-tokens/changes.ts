/** Changes of relay tokens by administrators: checked, written to the audit trail, then made. */
import type { Request } from 'express';
import { AppError } from '../../../shared/errors.ts';
import { newOpaqueTokenId } from '../../../shared/storage/opaque-token.ts';
import { isoTime } from '../../../shared/time.ts';
import type { CurrentApps } from '../../connected-apps/current-apps.ts';
import type { RelayToken, RelayTokenInput, RelayTokens } from '../../relay/relay-token.ts';
import type { Resource } from '../resource.ts';
import type { relayTokenJson } from './view.ts';

/** `token`: the token itself, which is shown only once. */
interface MadeToken {
  item: RelayToken;
  token: string;
}

/** All throw AppError `not_found` for an unknown id, and `invalid_request` for faulty input. */
export function relayTokenChanges(parts: {
  resource: Resource<RelayToken, typeof relayTokenJson>;
  tokens: RelayTokens;
  apps: CurrentApps;
  clock: () => number;
}) {
  const { resource, tokens, apps, clock } = parts;

  /** Checks what the schema alone cannot. */
  const check = (wanted: RelayTokenInput): void => {
    const faults = wanted.apps.flatMap((id, at) =>
      apps.find(id)
        ? []
        : [{ pointer: `#/apps/${at}`, rule: 'unknown_app', detail: 'There is no connected app with this id.' }],
    );
    const detail = 'Give a time in the future.';
    if (wanted.expiresAt <= clock()) faults.push({ pointer: '#/expiresAt', rule: 'invalid', detail });
    if (faults.length === 0) return;
    throw new AppError('invalid_request', {
      detail: 'The request is not valid: "errors" says where and why.',
      faults,
    });
  };

  return {
    async create(req: Request, wanted: RelayTokenInput): Promise<MadeToken> {
      check(wanted);
      const target = { id: newOpaqueTokenId(), name: wanted.name };
      const work = () => tokens.create(target.id, wanted);
      return madeOf(await resource.audited(req, 'relay_token.created', target, work, factsOf(wanted)));
    },

    /** @throws AppError `version_conflict` */
    async change(req: Request, { version, ...wanted }: RelayTokenInput & { version: number }) {
      check(wanted);
      const token = await resource.find(req);
      const work = () => tokens.change(token.id, version, wanted);
      return { item: await resource.audited(req, 'relay_token.changed', token, work, factsOf(wanted)) };
    },

    async rotate(req: Request, { overlapSeconds }: { overlapSeconds: number }): Promise<MadeToken> {
      const token = await resource.find(req);
      const work = () => tokens.rotate(token.id, overlapSeconds);
      return madeOf(await resource.audited(req, 'relay_token.rotated', token, work, { overlapSeconds }));
    },
  };
}

const madeOf = ({ token, text }: { token: RelayToken; text: string }): MadeToken => ({ item: token, token: text });

function factsOf({ users, expiresAt, ...wanted }: RelayTokenInput) {
  return {
    ...wanted,
    users: typeof users === 'string' ? users : `${users.length} listed`,
    expiresAt: isoTime(expiresAt),
  };
}
