/** The types of a session: in express-session and the store, and as a valid session is read. */
import type { SessionData } from 'express-session';

export interface SessionUser {
  id: string;
  issuer: string;
  subject: string;
  name: string | undefined;
  email: string | undefined;
  admin: boolean;
}

/** The session at the identity provider that began this one. */
export interface ProviderSession {
  /** Hash of issuer and `sid`; absent if the provider names no session. */
  id?: string;
  /** The ID token's `iat`: seconds since the epoch, by the provider's clock. */
  issuedAt: number;
}

/** An ID token, with the app registration that it was issued for. Only the sign-in reads it. */
export interface IssuedIdToken {
  token: string;
  registration: object;
}

declare module 'express-session' {
  interface SessionData {
    user: SessionUser;
    csrfToken: string;
    /** Id of the connected app that signed the user in. */
    app: string;
    providerSession: ProviderSession;
    /** The ID token that began the session. Only in the first write, which seals it in a separate record. */
    idToken?: IssuedIdToken | undefined;
    /** Hash of that ID token, the only one that the relay accepts for this user. */
    idTokenHash?: string | undefined;
    /** How the user authenticated: the ID token's `acr`. */
    acr?: string | undefined;
    /** When the user authenticated: the ID token's `auth_time`, in seconds since the epoch. */
    authTime?: number | undefined;
    /** The browser that signed in, such as "Firefox on Windows". */
    browser?: string | undefined;
    /** The IP address of that browser. */
    address?: string | undefined;
    /** Milliseconds since the epoch; only in a session that was read from the store. */
    createdAt: number;
  }
}

/** A session's record in the store. Times in milliseconds since the epoch. */
export interface StoredSession {
  data: SessionData;
  createdAt: number;
  /** When it was last used, to the minute or better. */
  seenAt: number;
}

/** A valid session: the same frozen object for each request that finds the record unchanged. Times as in the record. */
export interface Session extends Readonly<SessionData> {
  readonly seenAt: number;
  readonly expiresAt: number;
  /** Identifies the session to its user and to administrators. Not a credential. */
  readonly ref: string;
}

declare module '../http/request-context.ts' {
  interface RequestContext {
    /** Set by the guards that read the session; undefined for a caller that is not signed in. */
    session?: Session | undefined;
  }
}
