/** The JSON of a connected app: what registers or changes one, and its view, which never holds the secret. */
import { z } from 'zod';
import type { RegisteredApp } from '../../connected-apps/app-registry.ts';
import { nearMiss } from '../../connected-apps/callback-url.ts';
import { type ConnectedApp, callbackUrlOf, connectedAppSchema, isUsable } from '../../connected-apps/connected-app.ts';
import { containsCardNumber } from '../../observability/card-numbers.ts';
import { isoOrNull } from '../../time.ts';

const clientSecret = z.string().min(1).max(2000).optional();
/** Shown on pages, and sent to a provider that registers apps. */
const name = connectedAppSchema.shape.name.refine((text) => !containsCardNumber(text), {
  error: 'Leave the card number out.',
  params: { rule: 'card_number' },
});

/** As in `CONNECTED_APPS_FILE`, with the secret itself. */
export const newApp = connectedAppSchema.extend({ name, clientSecret: clientSecret.describe('write-only') });

/** The same for a registered app. Without a secret, the stored one is kept. */
export const changedApp = connectedAppSchema.extend({
  id: connectedAppSchema.shape.id.optional().describe('the one in the path, or left out'),
  name,
  clientSecret: clientSecret.describe('write-only; left out: the stored one stays'),
  version: z.int().describe('the version that was read: a newer one is not overwritten'),
});

export type NewApp = z.output<typeof newApp>;
export type ChangedApp = z.output<typeof changedApp>;

const instant = z.iso.datetime().nullable();

export const appJson = z.object({
  ...connectedAppSchema.shape,
  // Stored apps are shown as they are, even if the rules have become stricter since.
  callbackUrls: z.array(z.string()),
  returnUrls: z.array(z.string()),
  source: z.enum(['file', 'administration']).describe('an app of the file cannot be changed here'),
  version: z.int().nullable(),
  hasClientSecret: z.boolean(),
  clientSecretSetAt: instant,
  clientSecretExpiresAt: instant.describe('when it expires, if the provider said so'),
  createdAt: instant,
  changedAt: instant,
  callbackUrl: z.string().describe('to register at the provider'),
  postLogoutRedirectUri: z.string().describe('to register at the provider'),
  backchannelLogoutUri: z.string().describe('to register at the provider'),
  usable: z.boolean(),
  unusable: z.string().nullable().describe('why the app cannot be used'),
  connections: z.int().optional().describe('how many users are connected; only for a single app, not in lists'),
});

export type AppView = z.output<typeof appJson>;

/** @param app of the file, or as it was registered */
export function appView(app: ConnectedApp, registered: RegisteredApp | undefined, publicHref: string): AppView {
  const { clientSecret: secret, ...registration } = app;
  const usable = isUsable(app, publicHref);
  const own = callbackUrlOf(app.id, publicHref);
  return {
    ...registration,
    source: registered ? 'administration' : 'file',
    version: registered?.version ?? null,
    hasClientSecret: secret !== undefined,
    clientSecretSetAt: isoOrNull(registered?.secretSetAt),
    clientSecretExpiresAt: isoOrNull(registered?.secretExpiresAt),
    createdAt: isoOrNull(registered?.createdAt),
    changedAt: isoOrNull(registered?.changedAt),
    callbackUrl: own,
    postLogoutRedirectUri: `${publicHref}/`,
    backchannelLogoutUri: `${publicHref}/oauth/backchannel-logout/${app.id}`,
    usable,
    unusable: usable ? null : app.disabled ? DISABLED : notRegistered(nearMiss(app.callbackUrls, own, publicHref)),
  };
}

const DISABLED = 'The app is disabled: no sign-in and no call uses it.';

const notRegistered = (near: string | undefined): string =>
  near === undefined
    ? 'The callback URL of this Gatehouse is not among the callback URLs of the app: add it here and at the provider.'
    : `${near} is not exactly the callback URL of this Gatehouse, and providers compare every character: correct it here and at the provider.`;
