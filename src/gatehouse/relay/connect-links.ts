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
  user: z.string().regex(SUBJECT_ID).optional().describe('a user id: for a relay token with assertUser'),
  app: z.string().max(40).describe('id of a connected app'),
  scopes: z.array(z.string().max(200)).min(1).max(200).optional().describe('of the app; all of them where left out'),
  returnUrl: z.string().max(2_000).optional().describe('one of the return URLs of the app; otherwise its page here'),
});

const response = z.object({
  id: z.string(),
  url: z.string().describe('for the user; only this response contains it'),
  expiresAt: z.iso.datetime(),
});

export function relayConnectLinks(parts: {
  gate: RelayGate;
  apps: Pick<CurrentApps, 'find'>;
  /** Whether the app is still there, and as it was. */
  isRegistered: (app: ConnectedApp) => Promise<boolean>;
  links: ConnectLinks;
  /** The conditions of the user. */
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
    async ({ req, body: wanted }) => {
      const startedAt = clock();
      const caller = callerOf(req);
      const scope = 'connect_links:create';
      const named = await gate.readUser(req, caller, wanted.user, scope);
      if (!named) throw new AppError('invalid_request', { detail: 'Name the user, or send Gatehouse-User-Assertion.' });
      const authorized = async () => {
        const access = { scope, app: wanted.app, subject: await gate.loadSubject(named) } as const;
        gate.authorize(caller, access);
        return access;
      };
      const access = await authorized();
      const { subject } = access;
      const app = apps.find(wanted.app);
      if (!app) throw unknownApp();
      const scopes = scopesOf(app, wanted.scopes);
      const { returnUrl } = wanted;
      if (returnUrl !== undefined && !app.returnUrls.includes(returnUrl)) {
        throw new AppError('invalid_request', { detail: 'Give one of the return URLs of the app as "returnUrl".' });
      }
      const { token, address, requestId } = caller;
      const relayToken = { id: token.id, name: token.name };
      const created = await links.create({ userId: subject.id, app: app.id, scopes, returnUrl, relayToken }, () =>
        conditionsFor(subject.id, startedAt),
      );
      if (!created) {
        // Says why, where the policy does.
        await authorized();
        throw new AppError('not_allowed', { detail: USER_CHANGED });
      }
      const { link, url } = created;
      // To delete the app revokes the links listed by then; this one may have been created later.
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
      gate.count(caller, access, 'answered');
      return { id: link.id, url, expiresAt: isoTime(link.expiresAt) };
    },
  );
}

const USER_CHANGED =
  'The user was disabled, deleted or signed out everywhere meanwhile. Create another link if the user still needs it.';

const unknownApp = () => new AppError('not_found', { detail: 'There is no connected app with this id.' });

/** `openid` always, where it is registered. */
function scopesOf({ scopes }: ConnectedApp, wanted: readonly string[] = scopes): string[] {
  if (!wanted.every((scope) => scopes.includes(scope))) {
    throw new AppError('invalid_request', { detail: 'Choose among the scopes that are registered for this app.' });
  }
  return scopes.filter((scope) => scope === 'openid' || wanted.includes(scope));
}
