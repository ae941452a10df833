/** The types of the parts of oidc-provider that the sandbox uses, because the package has none. */
declare module 'oidc-provider/lib/provider.js' {
  import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';

  export interface Grant {
    addOIDCScope(scope: string): void;
    addResourceScope(resource: string, scope: string): void;
    save(): Promise<string>;
  }

  export interface Client {
    readonly clientId: string;
    readonly clientName?: string;
    readonly clientAuthMethod: string;
    readonly scope?: string;
    compareClientSecret(this: Client, secret: string): boolean | Promise<boolean>;
    grantTypeAllowed(grantType: string): boolean;
    responseTypeAllowed(this: Client, responseType: string): boolean;
    readonly backchannelLogoutUri?: string;
    /** Sends a logout token. Rejects unless the app accepts it. */
    backchannelLogout(accountId: string, sid: string | undefined): Promise<void>;
  }

  export interface Session {
    readonly uid: string;
    readonly accountId?: string;
    readonly acr?: string;
    readonly state?: { readonly secret: string };
    grantIdFor(clientId: string): string | undefined;
  }

  export interface InteractionDetails {
    readonly uid: string;
    readonly grantId?: string;
    readonly prompt: {
      readonly name: string;
      readonly reasons: readonly string[];
      readonly details: {
        readonly missingOIDCScope?: readonly string[];
        readonly missingResourceScopes?: Readonly<Record<string, readonly string[]>>;
      };
    };
    readonly params: {
      readonly client_id: string;
      readonly scope?: string;
      readonly login_hint?: string;
      readonly acr_values?: string;
      readonly redirect_uri: string;
    };
    readonly session?: { readonly accountId: string };
  }

  export interface InteractionResult {
    login?: { accountId: string; remember: boolean; acr: string; amr: string[] };
    consent?: { grantId: string };
    error?: string;
    error_description?: string;
  }

  /** How and when the user signed in; `authTime` in seconds since the epoch. */
  interface SignInFacts {
    readonly acr?: string;
    readonly authTime?: number;
  }
  export interface ProviderContext {
    type: string;
    status: number;
    body: unknown;
    readonly req: IncomingMessage;
    readonly query: Record<string, unknown>;
    set(headers: Record<string, string>): void;
    redirect(url: string): void;
    readonly oidc?: {
      readonly route: string;
      readonly client?: Client;
      readonly params: Record<string, string | undefined>;
      readonly body?: Record<string, unknown>;
      readonly entities: {
        readonly PushedAuthorizationRequest?: { readonly request: string };
        readonly AuthorizationCode?: SignInFacts;
        readonly RefreshToken?: SignInFacts;
      };
      readonly session?: Session;
      readonly prompts: ReadonlySet<string>;
      readonly result?: {
        readonly login?: { readonly accountId: string };
        readonly consent?: { readonly grantId: string };
      };
      urlFor(route: string): string;
    };
  }

  export type AuthorizationContext = ProviderContext & { readonly oidc: NonNullable<ProviderContext['oidc']> };

  export interface GrantedToken {
    readonly clientId: string;
  }

  export class Provider {
    constructor(issuer: string, configuration: Record<string, unknown>);
    /** The context of the current request. */
    static readonly ctx: ProviderContext | undefined;
    readonly Grant: {
      new (of: { accountId: string; clientId: string }): Grant;
      find(id: string): Promise<Grant | undefined>;
    };
    readonly Client: { prototype: Client; find(id: string): Promise<Client | undefined> };
    readonly RefreshToken: {
      new (of: {
        accountId: string;
        client: Client;
        grantId: string;
        gty: string;
        scope: string;
        resource?: string | undefined;
      }): { save(): Promise<string> };
    };
    readonly Session: { get(ctx: object): Promise<Session> };
    readonly InitialAccessToken: { new (of: { jti?: string; policies: string[] }): { save(): Promise<string> } };
    createContext(req: IncomingMessage, res: ServerResponse): object;
    use(middleware: (ctx: ProviderContext, next: () => Promise<void>) => Promise<void>): this;
    on(event: `${string}.error`, listener: (ctx: ProviderContext, error: { error_detail?: string }) => void): this;
    on(event: 'error', listener: (error: unknown) => void): this;
    on(event: 'server_error', listener: (ctx: ProviderContext, error: unknown) => void): this;
    callback(): RequestListener;
    interactionDetails(req: IncomingMessage, res: ServerResponse): Promise<InteractionDetails>;
    interactionFinished(
      req: IncomingMessage,
      res: ServerResponse,
      result: InteractionResult,
      options: { mergeWithLastSubmission: boolean },
    ): Promise<void>;
  }
}

declare module 'oidc-provider/lib/helpers/interaction_policy/index.js' {
  import type { AuthorizationContext } from 'oidc-provider/lib/provider.js';

  export class Check {
    static readonly NO_NEED_TO_PROMPT: false;
    constructor(reason: string, description: string, error: string, check: (ctx: AuthorizationContext) => boolean);
  }
  export class Prompt {
    constructor(settings: { name: string; requestable: boolean });
    readonly checks: { add(check: Check): void; clear(): void };
  }
  export function base(): { get(prompt: string): Prompt; add(prompt: Prompt): void };
}

declare module 'oidc-provider/lib/helpers/initialize_keystore.js' {
  import type { Provider } from 'oidc-provider/lib/provider.js';

  /** Replaces the provider's keys. */
  export default function initialize(this: Provider, jwks: { keys: object[] }): void;
}

declare module 'oidc-provider/lib/helpers/errors.js' {
  export class InvalidClientMetadata extends Error {
    constructor(description: string);
  }
  export class InvalidGrant extends Error {
    constructor(detail: string);
  }
  export class InvalidToken extends Error {
    constructor(detail: string);
  }
  export class InvalidScope extends Error {
    constructor(description: string, scope: string);
  }
}
