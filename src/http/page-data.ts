/** Owns the shape of what each page shows: data only, known to routes that fill it and to views that draw it. */
import type { ProblemCode, WhoseFault } from '../errors.ts';

/** What every page carries. `basePath` is '' or a path without a slash at its end. */
export interface PageFrame {
  title: string;
  basePath: string;
  operatorName: string;
  supportContact?: string | undefined;
  user?: PageUser | undefined;
  /** Without it the page draws no form that posts, the sign-out button included. */
  csrfToken?: string | undefined;
}

/** The frame of pages that hold forms that post: a token is then not optional. */
export interface SignedInFrame extends PageFrame {
  user: PageUser;
  csrfToken: string;
}

export interface PageUser {
  name: string;
  email?: string | undefined;
  /** Sees the way to the administration. */
  admin?: boolean | undefined;
}

/** One sentence at the top of a page about what has just happened. */
export interface Notice {
  tone: 'success' | 'info' | 'warning';
  text: string;
}

export interface SignInApp {
  id: string;
  name: string;
  url: string;
}

/** One browser in which the person is signed in. Instants are ISO 8601 strings. */
export interface SessionView {
  /** Names it in the address that ends it. */
  id: string;
  /** In words; left out where it did not say. */
  browser?: string | undefined;
  startedAt: string;
  lastSeenAt: string;
  /** The one that is looking. */
  current: boolean;
}

export type ConnectionHealth = 'active' | 'expiring' | 'in_doubt' | 'reconnect_needed';

/** One connected app as one user sees it. Instants are ISO 8601 strings. */
export interface ConnectionView {
  id: string;
  name: string;
  /** The account at the provider, as its owner knows it (an e-mail address, mostly). */
  account?: string | undefined;
  health: ConnectionHealth | 'not_connected';
  /** Why the health is what it is: a sentence for people, never a code. */
  cause?: string | undefined;
  /** Granted scopes of a connection; the scopes that will be asked for where there is none yet. */
  scopes: readonly string[];
  /** What can be chosen: the registered scopes, and which of them are granted. Without `openid`, which is no choice. */
  choices?: readonly { scope: string; granted: boolean }[] | undefined;
  connectedAt?: string | undefined;
  lastUsedAt?: string | undefined;
  /** Since when the provider has not confirmed that an earlier access is withdrawn. */
  revocationPendingSince?: string | undefined;
  /** Why connecting cannot work at all now (a sentence for people): the connect form is then left out. */
  unusable?: string | undefined;
}

/** What the provider said when a connection was ended. */
export type DisconnectOutcome = 'revoked' | 'no_revocation' | 'not_confirmed' | 'pending';

declare const sanitised: unique symbol;
/** HTML that went through `sanitizeThreadHtml`: the only kind that a page prints as it is. */
export type SanitisedHtml = string & { readonly [sanitised]: true };

export type ThreadBody =
  | { kind: 'html'; html: SanitisedHtml }
  | { kind: 'text'; text: string }
  | { kind: 'json'; value: unknown }
  | { kind: 'empty' };

/** The current thread of one connected app, or why there is none. */
export type ThreadPanel =
  | {
      kind: 'thread';
      appName: string;
      title: string;
      author?: string | undefined;
      updatedAt?: string | undefined;
      body: ThreadBody;
    }
  | { kind: 'not_connected'; appId: string; appName: string }
  | {
      kind: 'problem';
      appId: string;
      appName: string;
      code: ProblemCode;
      reference: string;
      retryAfterSeconds?: number | undefined;
    };

/** The facts of a BIN record; each may be absent. */
export interface BinFacts {
  number?: { length?: number | undefined; luhn?: boolean | undefined } | undefined;
  scheme?: string | undefined;
  type?: string | undefined;
  brand?: string | undefined;
  prepaid?: boolean | undefined;
  country?:
    | {
        numeric?: string | undefined;
        alpha2?: string | undefined;
        name?: string | undefined;
        emoji?: string | undefined;
        currency?: string | undefined;
        latitude?: number | undefined;
        longitude?: number | undefined;
      }
    | undefined;
  bank?:
    | {
        name?: string | undefined;
        url?: string | undefined;
        phone?: string | undefined;
        city?: string | undefined;
      }
    | undefined;
}

export type BinSource = 'dataset' | 'service' | 'cache' | 'rules';

export interface BinResult {
  /** 6 to 8 digits. */
  bin: string;
  record: BinFacts;
  source: BinSource;
  /** ISO 8601 date. */
  asOf?: string | undefined;
  digitsMatched: number;
}

/** Why a look-up has no answer. What was typed is not part of it: it may have been a whole card number. */
export interface BinError {
  code: ProblemCode;
  reference: string;
  retryAfterSeconds?: number | undefined;
}

/** The look-up form with what came of it; both left out for the empty form. */
export interface BinPanel {
  result?: BinResult | undefined;
  error?: BinError | undefined;
}

export interface NextStep {
  label: string;
  url: string;
}

export interface PageData {
  'home-signed-out': {
    page: PageFrame;
    signInApps: readonly SignInApp[];
    notice?: Notice | undefined;
  };
  'home-signed-in': {
    page: SignedInFrame;
    connections: readonly ConnectionView[];
    threads: readonly ThreadPanel[];
    bin: BinPanel;
    notice?: Notice | undefined;
  };
  'choose-sign-in': {
    page: PageFrame;
    signInApps: readonly SignInApp[];
  };
  connections: {
    page: SignedInFrame;
    connections: readonly ConnectionView[];
    notice?: Notice | undefined;
  };
  connection: {
    page: SignedInFrame;
    connection: ConnectionView;
    /** Back-end services that used it; `lastAt` in milliseconds since the epoch. */
    services?: readonly { name: string; lastAt: number; count: number }[] | undefined;
    /** Posted as `return_to` with the connect form. */
    returnTo?: string | undefined;
    /** Set on the page that follows a disconnect. */
    disconnected?: DisconnectOutcome | undefined;
    notice?: Notice | undefined;
  };
  sessions: {
    page: SignedInFrame;
    sessions: readonly SessionView[];
    notice?: Notice | undefined;
  };
  /** Asks once more before everything that is kept about somebody is deleted. */
  erase: { page: SignedInFrame };
  erased: {
    page: PageFrame;
    /** What became of each connection, as half a sentence. */
    connections: readonly { name: string; words: string }[];
  };
  bin: {
    page: SignedInFrame;
    bin: BinPanel;
  };
  error: {
    page: PageFrame;
    code: ProblemCode;
    /** 8 characters. */
    reference: string;
    /** ISO 8601 instant. */
    time: string;
    /** The next five stand in place of the code's own words, where more is known: for people, each a sentence. */
    title?: string | undefined;
    cause?: string | undefined;
    whose?: WhoseFault | undefined;
    nextStep?: string | undefined;
    step?: NextStep | undefined;
    retryAfterSeconds?: number | undefined;
  };
  problem: {
    page: PageFrame;
    code: ProblemCode;
  };
}

/**
 * Pages for administrators and developers. The file that fills one declares what it shows; the template of the same name
 * under `views` draws it.
 */
// biome-ignore lint/suspicious/noEmptyInterface: those files fill it
export interface AdminPageData {}

export type PageName = keyof PageData;
export type AdminPageName = keyof AdminPageData;
