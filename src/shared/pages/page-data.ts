/** The data that routes pass to pages. */
import type { Helper, ProblemCode } from '../errors.ts';

/** The data of every page. `basePath` is '' or a path without a trailing slash. */
export interface PageFrame {
  title: string;
  basePath: string;
  operatorName: string;
  /** The path of the only page of a program that has no menu. */
  home?: string | undefined;
  supportContact?: string | undefined;
  user?: PageUser | undefined;
  /** Without it, the page has no forms that post, not even the sign-out button. */
  csrfToken?: string | undefined;
  /** Identifies the form, so that it counts once even if it is sent twice. */
  formId?: string | undefined;
  /** Faults of the form on this page, which lists them at the top and announces them in the title. */
  faults?: readonly FieldFault[] | undefined;
}

/** The frame of pages for signed-in users; their forms need the CSRF token. */
export interface SignedInFrame extends PageFrame {
  user: PageUser;
  csrfToken: string;
  formId: string;
}

export interface PageUser {
  id: string;
  name: string;
  email?: string | undefined;
  /** Whether the page links to the administration. */
  admin?: boolean | undefined;
}

/** A sentence at the top of a page about an action that has just succeeded or failed. */
export interface Notice {
  tone: 'success' | 'info' | 'warning';
  text: string;
}

/** A connection that has ended, by the name of its app; `words` ends a sentence. */
export interface DisconnectedApp {
  name: string;
  words: string;
}

/** A fault of a form; `field` is '' if it concerns the whole form. */
export interface FieldFault {
  field: string;
  text: string;
  /** The value is valid, but others have changed the field meanwhile. */
  isConflict?: boolean | undefined;
}

/** A new secret, which only the next page shows. */
export interface NewSecret {
  /** What it is, such as "relay token". */
  kind: string;
  name: string;
  text: string;
  /** When the previous secret expires (ISO 8601), if it still works. */
  previousUntil?: string | null | undefined;
  /** A line for a shell that tries the secret, and asks for it. `words`: what the line does. */
  line?: { words: string; text: string } | undefined;
}

export interface SignInApp {
  id: string;
  name: string;
  url: string;
  /** The URL at which the user can choose another account at the provider. */
  otherUrl?: string | undefined;
}

/** One browser in which the user is signed in. Instants are ISO 8601 strings. */
export interface SessionView {
  /** Part of the URL that ends the session. */
  id: string;
  /** For example "Firefox on Windows"; undefined if it is not recognized. */
  browser?: string | undefined;
  startedAt: string;
  lastSeenAt: string;
  /** True for the session of this request. */
  current: boolean;
}

export type ConnectionHealth = 'active' | 'expiring' | 'unverified' | 'reconnect_needed';

/** One connected app as one user sees it. Instants are ISO 8601 strings. */
export interface ConnectionView {
  id: string;
  name: string;
  /** The name of the account at the provider, usually an e-mail address. */
  account?: string | undefined;
  health: ConnectionHealth | 'not_connected';
  /** The reason for the health: a sentence for the user, never a code. */
  cause?: string | undefined;
  /** The provider will ask the user for a stronger or newer sign-in, which the platform demands. */
  needsStepUp?: boolean | undefined;
  /** The granted scopes; without a connection, the scopes that will be requested. */
  scopes: readonly string[];
  /** The scopes that the user can choose, except `openid`, which is always requested. */
  choices?: readonly { scope: string; ticked: boolean; isNew: boolean }[] | undefined;
  /** The scopes that the page asks the user to add, and all scopes of the authorization request for them. */
  more?: { scopes: readonly string[]; request: readonly string[] } | undefined;
  connectedAt?: string | undefined;
  /** When the provider last issued tokens for the connection, or ended it. */
  checkedAt?: string | undefined;
  /** When the connection last worked; set only if that is more than two check intervals ago. */
  notCheckedSince?: string | undefined;
  lastUsedAt?: string | undefined;
  /** The platform that calls with this connection go to. */
  apiBaseUrl?: string | undefined;
  /** The start of a revocation of an earlier grant that the provider has not confirmed yet. */
  revocationPendingSince?: string | undefined;
  /** A sentence for the user on why connecting cannot work now; the page then has no connect form. */
  unusable?: string | undefined;
}

/** The result of the revocation at the provider when a user disconnects. */
export type DisconnectOutcome = 'revoked' | 'unsupported' | 'unconfirmed' | 'pending';

declare const sanitised: unique symbol;
/** HTML from `sanitizeThreadHtml`, the only HTML that a page prints without escaping. */
export type SanitisedHtml = string & { readonly [sanitised]: true };

/** `isLong`: the page shows a preview, which can be opened. `isCut`: the thread is longer than the page shows. */
export type ThreadBody =
  | { kind: 'html'; html: SanitisedHtml; isLong: boolean; isCut: boolean }
  | { kind: 'text' | 'json'; text: string; isLong: boolean; isCut: boolean }
  | { kind: 'empty' };

/** The current thread of one connected app, or the reason why it has none. */
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
      /** Replaces the texts of the code. */
      words?: { title: string | undefined; meaning: string | undefined } | undefined;
      /** The page on which the user can add permissions, if that helps. */
      permissionsUrl?: string | undefined;
      reference: string | undefined;
      retryAfterSeconds?: number | undefined;
    };

export type BinSource = 'dataset' | 'service' | 'cache' | 'rules';

/** The result of a lookup. The module `bin` adds the record. */
export interface BinResult {
  /** 6 to 8 digits. */
  bin: string;
  source: BinSource;
  /** ISO 8601 date. */
  asOf?: string | undefined;
  digitsMatched: number;
  /** Whether the facts are more than two years old. */
  outdated?: boolean | undefined;
  /** Whether the card is a test card of a payment provider. */
  testData?: boolean | undefined;
  /** Whether the BIN lookup service, which may have more facts, could not be called. */
  isServiceUnavailable?: boolean | undefined;
}

/** A failed lookup, without the input, which may be a whole card number. */
export interface BinError {
  code: ProblemCode;
  /** Replaces the code's own text if more is known. */
  meaning?: string | undefined;
  reference: string | undefined;
  retryAfterSeconds?: number | undefined;
}

/** The lookup form with its result or error; the empty form has neither. */
export interface BinPanel {
  result?: BinResult | undefined;
  error?: BinError | undefined;
}

/** The button of an error page. */
export interface ErrorAction {
  label: string;
  url: string;
  /** True for a POST with the CSRF token. */
  isForm?: boolean;
  alternative?: { label: string; url: string } | undefined;
}

/** The API calls to the platform of one app. */
export interface AppCalls {
  appId: string;
  appName: string;
  /** `isLink`: a link makes the call. */
  calls: readonly { method: string; path: string; isLink: boolean }[];
}

/**
 * The data of each page, by the name of its template under `views`. Modules that import this one declare the data of
 * their pages by extending this interface.
 */
export interface PageData {
  'home/signed-out': {
    page: PageFrame;
    signInApps: readonly SignInApp[];
    notice?: Notice | undefined;
  };
  'home/signed-in': {
    page: SignedInFrame;
    connections: readonly ConnectionView[];
    threads: readonly ThreadPanel[];
    calls: readonly AppCalls[];
    bin: BinPanel;
    notice?: Notice | undefined;
  };
  'sign-in/choose': {
    page: PageFrame;
    signInApps: readonly SignInApp[];
  };
  'connections/list': {
    page: SignedInFrame;
    connections: readonly ConnectionView[];
    notice?: Notice | undefined;
  };
  'connections/one': {
    page: SignedInFrame;
    connection: ConnectionView;
    /** Back-end services that used the connection; `lastAt` in milliseconds since the epoch. */
    services?: readonly { name: string; lastAt: number; count: number }[] | undefined;
    /** Posted as `return_to` with the connect form. */
    returnTo?: string | undefined;
    /** Posted with the connect form. */
    hints?: Readonly<Record<string, string>> | undefined;
    notice?: Notice | undefined;
  };
  'connections/link': {
    page: SignedInFrame;
    connection: ConnectionView;
    scopes: readonly string[];
    /** Name of the relay token that created the link. */
    service: string;
    expiresAt: string;
    /** The secret of the link, which is part of its path. */
    link: string;
    /** Posted with the connect form. */
    hints: Readonly<Record<string, string>>;
  };
  'sign-in/sessions': {
    page: SignedInFrame;
    sessions: readonly SessionView[];
    notice?: Notice | undefined;
  };
  /** Asks for confirmation before all data about the user is deleted. */
  'sign-in/erase': { page: SignedInFrame };
  'sign-in/erased': {
    page: PageFrame;
    connections: readonly DisconnectedApp[];
  };
  'bin/page': {
    page: SignedInFrame;
    bin: BinPanel;
  };
  'errors/error': {
    page: PageFrame;
    code: ProblemCode;
    /** A text of 8 characters, by which an administrator can look the failure up; undefined if that is not possible. */
    reference: string | undefined;
    /** ISO 8601 instant. */
    time: string;
    /** This and the next four members replace the code's own texts, if more is known; the texts are for users. */
    title?: string | undefined;
    cause?: string | undefined;
    helper?: Helper | undefined;
    advice?: string | undefined;
    action?: ErrorAction | undefined;
    retryAfterSeconds?: number | undefined;
  };
  'errors/problem': {
    page: PageFrame;
    code: ProblemCode;
  };
}

export type PageName = keyof PageData;
