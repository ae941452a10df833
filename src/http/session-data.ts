/** Owns what a session says: whom it lets in, and what express-session keeps of it. Shapes alone. */
import type { SessionData } from 'express-session';

export interface SessionUser {
  id: string;
  issuer: string;
  subject: string;
  name: string | undefined;
  email: string | undefined;
  admin: boolean;
}

/** The session at the identity provider that ours was begun with. */
export interface ProviderSession {
  /** Of issuer and `sid`, hashed together; absent where the provider names no session. */
  id?: string;
  /** The ID token's `iat`: seconds since the epoch, by the provider's clock. */
  issuedAt: number;
}

declare module 'express-session' {
  interface SessionData {
    user: SessionUser;
    csrfToken: string;
    /** Id of the connected app that signed the user in. */
    app: string;
    providerSession: ProviderSession;
    /** How the person proved who they are, as the ID token's `acr` says it. */
    acr?: string | undefined;
    /** The browser that signed in, in words. */
    browser?: string | undefined;
    /** Where it signed in from. */
    address?: string | undefined;
    /** Milliseconds since the epoch; only in what was read. */
    createdAt: number;
  }
}

/** Whom a session lets in. */
export interface Viewer {
  user: SessionUser;
  csrfToken: string;
  /** Id of the app that signed the user in. */
  app: string;
  /** How the user signed in, as the ID token's `acr` says it. */
  acr?: string | undefined;
  /** Milliseconds since the epoch. */
  expiresAt: number;
  /** Names this session among the user's own. */
  sessionRef: string;
}

/** The same object for each request that finds the record unchanged: frozen, as is what it holds. */
export interface LiveSession {
  readonly data: Readonly<SessionData>;
  readonly expiresAt: number;
  /** When it was last used, to the minute or better; milliseconds since the epoch. */
  readonly seenAt: number;
  /** Names the session towards its user; opens nothing. */
  readonly ref: string;
  /** Undefined where nobody has signed in with it. */
  readonly viewer: Readonly<Viewer> | undefined;
}
