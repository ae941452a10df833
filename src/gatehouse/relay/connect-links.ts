/** Serves `POST /relay/connect-links`: a service creates a link with which one user connects one app. */
import { z } from 'zod';
import { AppError } from '../../shared/errors.ts';
import { type DescribedHandler, operation } from '../../shared/http/operation.ts';
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import { isoTime } from '../../shared/time.ts';
import type { Audit } from '../audit/audit.ts';
import type { CurrentApps } from '../connected-apps/current-apps.ts';
import type { ConnectLinks } from '../grants/connect-links.ts';
import type { UserStore } from '../users/user-store.ts';
import type { RelayGate } from './gate.ts';
import { SUBJECT_ID } from './policy.ts';
import { callerOf, USER_ASSERTION } from './routes.ts';

const body = z.strictObject({
  userId: z.string().regex(SUBJECT_ID).optional().describe('a user id: for a relay token with assertUser'),
  app: z.string().max(40).describe('id of a connected app'),
  scopes: z.array(z.string().max(200)).min(1).max(200).optional().describe('scopes of the app; all of them by default'),
  returnUrl: z
    .string()
    .max(2_000)
    .optional()
    .describe('one of the return URLs of the app; by default its page in Gatehouse'),
});

const response = z.object({
  id: z.string(),
  url: z.string().describe('for the user; only this response contains it'),
  expiresAt: z.iso.datetime(),
});

export function relayConnectLinks(parts: {
  gate: RelayGate;
  apps: Pick<CurrentApps, 'find'>;
  /** Returns whether the app still exists and has not changed. */
  isRegistered: (app: ConnectedApp) => Promise<boolean>;
  links: ConnectLinks;
  /** Returns the conditions under which the user may have a link and was not signed out after the given time. */
  conditionsFor: UserStore['conditionsForImport'];
  audit: Pick<Audit, 'note'>;
  clock: () => number;
}): DescribedHandler {
  const { gate, apps, isRegistered, links, conditionsFor, audit, clock } = parts;
  return operation(
    {
      summary: 'Create a link with which one user connects one app, once, within 30 minutes',
      headers: USER_ASSERTION,
      body,
      response,
      status: 201,
    },
    async ({ req, body: request }) => {
      const startedAt = clock();
      const caller = callerOf(req);
      const scope = 'connect_links:create';
      const namedUser = await gate.readUser(req, caller, request.userId, scope);
      if (!namedUser)
        throw new AppError('invalid_request', { detail: 'Name the user, or send Gatehouse-User-Assertion.' });
      const authorize = async () => {
        const access = { scope, app: request.app, subject: await gate.loadSubject(namedUser) } as const;
        gate.authorize(caller, access);
        return access;
      };
      const access = await authorize();
      const { subject } = access;
      const app = apps.find(request.app);
      if (!app) throw unknownApp();
      const scopes = scopesOf(app, request.scopes);
      const { returnUrl } = request;
      if (returnUrl !== undefined && !app.returnUrls.includes(returnUrl)) {
        throw new AppError('invalid_request', { detail: 'Send one of the return URLs of the app as "returnUrl".' });
      }
      const { token, address, requestId } = caller;
      const relayToken = { id: token.id, name: token.name };
      const created = await links.create({ userId: subject.id, app: app.id, scopes, returnUrl, relayToken }, () =>
        conditionsFor(subject.id, startedAt),
      );
      if (!created) {
        // If the policy now refuses the call, this throws with the reason.
        await authorize();
        throw new AppError('not_allowed', { detail: USER_CHANGED });
      }
      const { link, url } = created;
      // Deleting the app revokes the links that exist at that moment. This link may have been created afterwards.
      if (!(await isRegistered(app))) {
        await links.revoke(link.id);
        throw unknownApp();
      }
      audit.note({
        event: 'connect_link.created',
        actor: { kind: 'relay_token', ...relayToken },
        target: { kind: 'connect_link', id: link.id },
        userId: subject.id,
        address,
        requestId,
        facts: { app: app.id, scopes },
      });
      gate.count(caller, access, 'succeeded');
      return { id: link.id, url, expiresAt: isoTime(link.expiresAt) };
    },
  );
}

const USER_CHANGED =
  'The user was disabled, deleted or signed out everywhere in the meantime. Create another link if the user still needs it.';

const unknownApp = () => new AppError('not_found', { detail: 'There is no connected app with this id.' });

/** Returns the requested scopes, with `openid` if the app has it. @throws AppError `invalid_request` */
function scopesOf({ scopes }: ConnectedApp, requested: readonly string[] = scopes): string[] {
  if (!requested.every((scope) => scopes.includes(scope))) {
    throw new AppError('invalid_request', { detail: 'Choose from the scopes that are registered for this app.' });
  }
  return scopes.filter((scope) => scope === 'openid' || requested.includes(scope));
}
