/** Owns the types of the part of oidc-provider that the sandbox uses; the package itself ships none. */
declare module 'oidc-provider/lib/provider.js' {
  import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';

  export interface Grant {
    addOIDCScope(scope: string): void;
    save(): Promise<string>;
  }

  export interface Client {
    readonly clientId: string;
    readonly clientName?: string;
    readonly clientAuthMethod: string;
  }

  export interface InteractionDetails {
    readonly uid: string;
    readonly grantId?: string;
    readonly prompt: { readonly name: string; readonly details: { readonly missingOIDCScope?: readonly string[] } };
    readonly params: {
      readonly client_id: string;
      readonly scope?: string;
      readonly login_hint?: string;
      readonly redirect_uri: string;
    };
    readonly session?: { readonly accountId: string };
  }

  export interface InteractionResult {
    login?: { accountId: string; remember: boolean; amr: string[] };
    consent?: { grantId: string };
    error?: string;
    error_description?: string;
  }

  export interface ProviderContext {
    type: string;
    status: number;
    body: unknown;
    set(headers: Record<string, string>): void;
    redirect(url: string): void;
    readonly oidc?: {
      readonly route: string;
      readonly client?: Client;
      readonly params: Record<string, string | undefined>;
      readonly session?: { readonly accountId?: string; readonly state: { readonly secret: string } };
      urlFor(route: string): string;
    };
  }

  export interface GrantedToken {
    readonly clientId: string;
  }

  export class Provider {
    constructor(issuer: string, configuration: Record<string, unknown>);
    readonly Grant: {
      new (of: { accountId: string; clientId: string }): Grant;
      find(id: string): Promise<Grant | undefined>;
    };
    readonly Client: { find(id: string): Promise<Client | undefined> };
    use(middleware: (ctx: ProviderContext, next: () => Promise<void>) => Promise<void>): this;
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
