/** Checks, audits and stores changes of relay tokens by administrators. */
import type { Request } from 'express';
import { AppError } from '../../../shared/errors.ts';
import { newOpaqueTokenId } from '../../../shared/storage/opaque-token.ts';
import { isoTime } from '../../../shared/time.ts';
import type { CurrentApps } from '../../connected-apps/current-apps.ts';
import type { RelayToken, RelayTokenInput, RelayTokens } from '../../relay/relay-token.ts';
import { changedMembers } from '../merge.ts';
import type { Resource } from '../resource.ts';
import type { relayTokenJson } from './view.ts';

/** `token` contains the secret, which is shown only once. */
interface TokenWithSecret {
  item: RelayToken;
  token: string;
}

/** All methods throw AppError `not_found` for an unknown id, and `invalid_request` for invalid input. */
export function relayTokenChanges(parts: {
  resource: Resource<RelayToken, typeof relayTokenJson>;
  tokens: RelayTokens;
  apps: CurrentApps;
  clock: () => number;
}) {
  const { resource, tokens, apps, clock } = parts;

  /** Checks the members that the schema cannot check. */
  const check = (input: RelayTokenInput): void => {
    const faults = input.apps.flatMap((id, index) =>
      apps.find(id)
        ? []
        : [{ pointer: `#/apps/${index}`, rule: 'unknown_app', detail: 'There is no connected app with this id.' }],
    );
    const detail = 'Enter a time in the future.';
    if (input.expiresAt <= clock()) faults.push({ pointer: '#/expiresAt', rule: 'invalid', detail });
    if (faults.length === 0) return;
    throw new AppError('invalid_request', {
      detail: 'The request is not valid: "errors" says where and why.',
      faults,
    });
  };

  return {
    async create(req: Request, input: RelayTokenInput): Promise<TokenWithSecret> {
      check(input);
      const target = { id: newOpaqueTokenId(), name: input.name };
      const work = () => tokens.create(target.id, input);
      const { token, text } = await resource.audited(req, 'relay_token.created', target, work, factsOf(input));
      return { item: token, token: text };
    },

    /** @throws AppError `version_conflict` */
    async change(req: Request, { version, ...input }: RelayTokenInput & { version: number }) {
      check(input);
      const token = await resource.find(req);
      const work = () => tokens.change(token.id, version, input);
      const facts = { changed: changedMembers({ ...token }, { ...input }), ...factsOf(input) };
      return { item: await resource.audited(req, 'relay_token.changed', token, work, facts) };
    },
  };
}

function factsOf({ users, expiresAt, ...facts }: RelayTokenInput) {
  return {
    ...facts,
    users: typeof users === 'string' ? users : `${users.length} listed`,
    expiresAt: isoTime(expiresAt),
  };
}
