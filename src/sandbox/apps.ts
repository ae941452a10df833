/** Stores the connected apps that are registered at the sandbox. */
import { randomBytes, randomUUID } from 'node:crypto';
import {
  type AppOverrides,
  type AppSettings,
  type DefaultSettings,
  type RefreshPolicy,
  settingsFor,
} from './app-settings.ts';
import { clientMetadata, type SandboxClient } from './clients.ts';
import { isEqual } from './is-equal.ts';
import type { RecordAdapter } from './provider-records.ts';

export interface RegisteredApp extends SandboxClient {
  readonly origin: 'start' | 'console' | 'dynamic registration';
  readonly registeredAtMs: number;
  /** The previous secret, while both are valid. */
  readonly oldSecret?: { readonly secret: string; readonly untilMs: number };
  /** Other metadata from dynamic registration. */
  readonly otherMetadata?: Readonly<Record<string, unknown>>;
}

export interface AppRegistry {
  all(): readonly RegisteredApp[];
  find(clientId: string): RegisteredApp | undefined;
  /** Registers an app with a new client ID and, if the authentication method needs one, a new secret. */
  register(app: Omit<SandboxClient, 'clientId' | 'clientSecret'>): RegisteredApp;
  /**
   * Replaces the fields of the form, and removes URLs that it leaves out. Returns a new secret if the changed
   * authentication method needs a secret and the app has none.
   */
  change(clientId: string, app: Omit<SandboxClient, 'clientId' | 'clientSecret'>): string | undefined;
  /** Replaces the secret. The old one stays valid for `overlapMs`. Returns undefined if the app has no secret. */
  newSecret(clientId: string, overlapMs: number): string | undefined;
  isOldSecret(clientId: string, secret: string): boolean;
  remove(clientId: string): void;
  /** Returns the settings of an app; the defaults if there is no such app. */
  settingsOf(clientId: string | undefined): AppSettings;
  /** The adapter by which oidc-provider reads registrations, and stores dynamic ones. */
  readonly adapter: RecordAdapter;
}

interface Parts {
  clients: readonly SandboxClient[];
  defaults: DefaultSettings;
  refreshTokens: RefreshPolicy;
  /** Clients of the sandbox itself, hidden from the console. */
  own: readonly Record<string, unknown>[];
  now: () => number;
}

export function createApps({ clients, defaults, refreshTokens, own, now }: Parts): AppRegistry {
  const apps = new Map<string, RegisteredApp>();
  const ownById = new Map(own.map((metadata) => [String(metadata.client_id), metadata]));
  const add = (app: RegisteredApp): RegisteredApp => {
    apps.set(app.clientId, app);
    return app;
  };
  for (const client of clients) add({ ...client, origin: 'start', registeredAtMs: now() });

  return {
    all: () => [...apps.values()],
    find: (clientId) => apps.get(clientId),
    register: (app) =>
      add({ ...app, clientId: randomUUID(), ...secretFor(app), origin: 'console', registeredAtMs: now() }),
    change(clientId, changes) {
      const app = apps.get(clientId);
      if (app === undefined) return undefined;
      const { jwksUri: _keys, backchannelLogoutUri: _logout, ...rest } = app;
      const newSecret = app.clientSecret === undefined ? secretFor(changes) : {};
      add({ ...rest, ...changes, ...newSecret });
      return newSecret.clientSecret;
    },
    newSecret(clientId, overlapMs) {
      const app = apps.get(clientId);
      const { clientSecret } = app ? secretFor(app) : {};
      if (!app?.clientSecret || clientSecret === undefined) return undefined;
      add({ ...app, clientSecret, oldSecret: { secret: app.clientSecret, untilMs: now() + overlapMs } });
      return clientSecret;
    },
    isOldSecret(clientId, secret) {
      const oldSecret = apps.get(clientId)?.oldSecret;
      return oldSecret !== undefined && now() < oldSecret.untilMs && isEqual(oldSecret.secret, secret);
    },
    remove: (clientId) => void apps.delete(clientId),
    settingsOf: (clientId) => settingsFor(apps.get(clientId ?? '')?.settings, defaults, refreshTokens),
    adapter: {
      async find(id) {
        const app = apps.get(id);
        return app ? { ...app.otherMetadata, ...clientMetadata(app), ...grantsOf(app) } : ownById.get(id);
      },
      async upsert(id, metadata) {
        const app = fromMetadata(id, metadata);
        // An app that updates its registration (RFC 7592) keeps the settings from the console.
        const { settings, registeredAtMs = now(), oldSecret } = apps.get(id) ?? {};
        const previous = { settings: { ...settings, ...app.settings }, ...(oldSecret ? { oldSecret } : {}) };
        add({ ...app, ...previous, origin: 'dynamic registration', registeredAtMs });
      },
      findByUid: async () => undefined,
      consume: async () => undefined,
      destroy: async (id) => void apps.delete(id),
      revokeByGrantId: async () => undefined,
    },
  };
}

function secretFor({ tokenEndpointAuthMethod: method }: Partial<SandboxClient>): { clientSecret?: string } {
  const hasNone = method === 'none' || method === 'private_key_jwt';
  return hasNone ? {} : { clientSecret: randomBytes(32).toString('base64url') };
}

/** An app from dynamic registration may use only the grant types that it registered. */
function grantsOf({ otherMetadata }: RegisteredApp): Record<string, unknown> {
  return otherMetadata?.grant_types === undefined ? {} : { grant_types: otherMetadata.grant_types };
}

function fromMetadata(
  clientId: string,
  metadata: Record<string, unknown>,
): SandboxClient & Pick<RegisteredApp, 'otherMetadata'> {
  const text = (name: string) => (typeof metadata[name] === 'string' ? metadata[name] : undefined);
  const list = (name: string) => (Array.isArray(metadata[name]) ? metadata[name].map(String) : []);
  const { jwks_uri: _keys, backchannel_logout_uri: _logout, ...otherMetadata } = metadata;
  const settings: AppOverrides = {
    requirePushedRequests: metadata.require_pushed_authorization_requests === true,
    requireDpop: metadata.dpop_bound_access_tokens === true,
  };
  return {
    clientId,
    ...withText('clientSecret', text('client_secret')),
    ...withText('name', text('client_name')),
    ...withText('jwksUri', text('jwks_uri')),
    ...withText('backchannelLogoutUri', text('backchannel_logout_uri')),
    redirectUris: list('redirect_uris'),
    postLogoutRedirectUris: list('post_logout_redirect_uris'),
    ...(metadata.scope === undefined ? {} : { scopes: String(metadata.scope).split(' ') }),
    tokenEndpointAuthMethod: text('token_endpoint_auth_method') as NonNullable<
      SandboxClient['tokenEndpointAuthMethod']
    >,
    idTokenAlgorithm: text('id_token_signed_response_alg') as 'RS256' | 'ES256',
    backchannelLogoutSessionRequired: metadata.backchannel_logout_session_required === true,
    settings,
    otherMetadata,
  };
}

function withText<Name extends string>(name: Name, value: string | undefined) {
  return (value === undefined ? {} : { [name]: value }) as { [N in Name]?: string };
}
