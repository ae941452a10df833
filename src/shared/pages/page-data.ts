/** What routes give to pages. */
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
  /** Lets a form that is sent twice count once. */
  formId?: string | undefined;
  /** Of the form on this page: listed at its top, and announced in its title. */
  faults?: readonly FieldFault[] | undefined;
}

/** The frame of pages with forms, which need the CSRF token. */
export interface SignedInFrame extends PageFrame {
  user: PageUser;
  csrfToken: string;
  formId: string;
}

export interface PageUser {
  name: string;
  email?: string | undefined;
  /** Shows the link to the administration. */
  admin?: boolean | undefined;
}

/** One sentence at the top of a page about what has just happened. */
export interface Notice {
  tone: 'success' | 'info' | 'warning';
  text: string;
}

/** A fault of a form; `field` is '' if it concerns the whole form. */
export interface FieldFault {
  field: string;
  text: string;
  /** The name of the rule, as docs and API have it; shown beside the field. */
  rule?: string | undefined;
}

/** A secret on the only page that ever shows it. */
export interface MadeSecret {
  name: string;
  text: string;
}

export interface SignInApp {
  id: string;
  name: string;
  url: string;
  /** Lets the user choose another account at the provider. */
  otherUrl?: string | undefined;
}

/** One browser in which the user is signed in. Instants are ISO 8601 strings. */
export interface SessionView {
  /** Part of the URL that ends the session. */
  id: string;
  /** Such as "Firefox on Windows"; left out if it is not known. */
  browser?: string | undefined;
  startedAt: string;
  lastSeenAt: string;
  /** The session of this request. */
  current: boolean;
}

export type ConnectionHealth = 'active' | 'expiring' | 'unverified' | 'reconnect_needed';

/** One connected app as one user sees it. Instants are ISO 8601 strings. */
export interface ConnectionView {
  id: string;
  name: string;
  /** The account at the provider, as its owner knows it (usually an e-mail address). */
  account?: string | undefined;
  health: ConnectionHealth | 'not_connected';
  /** The reason for the health: a sentence for the user, never a code. */
  cause?: string | undefined;
  /** The granted scopes; without a connection, the scopes that will be requested. */
  scopes: readonly string[];
  /** The scopes that the user can choose, except `openid`, which is always requested. */
  choices?: readonly { scope: string; ticked: boolean; isNew: boolean }[] | undefined;
  /** Scopes to ask the user for now, and all that a request for them names. */
  more?: { scopes: readonly string[]; request: readonly string[] } | undefined;
  connectedAt?: string | undefined;
  /** When the provider last issued tokens for it, or ended it. */
  checkedAt?: string | undefined;
  /** When it last worked; set only if that is more than two check intervals ago. */
  notCheckedSince?: string | undefined;
  lastUsedAt?: string | undefined;
  /** Where calls with it go. */
  apiBaseUrl?: string | undefined;
  /** Since when the revocation of an earlier grant has been pending at the provider. */
  revocationPendingSince?: string | undefined;
  /** Why connecting cannot work now, a sentence for the user; the connect form is then left out. */
  unusable?: string | undefined;
}

/** The result of the revocation when a connection was ended. */
export type DisconnectOutcome = 'revoked' | 'unsupported' | 'unconfirmed' | 'pending';

declare const sanitised: unique symbol;
/** HTML from `sanitizeThreadHtml`: the only HTML that a page prints without escaping. */
export type SanitisedHtml = string & { readonly [sanitised]: true };

/** `isCut`: the thread is longer than the page shows. */
export type ThreadBody =
  | { kind: 'html'; html: SanitisedHtml; isCut: boolean }
  | { kind: 'text' | 'json'; text: string; isCut: boolean }
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
      /** In place of the words that belong to the code. */
      words?: { title: string | undefined; meaning: string | undefined } | undefined;
      /** Where the user adds permissions, if that helps. */
      permissionsUrl?: string | undefined;
      reference: string | undefined;
      retryAfterSeconds?: number | undefined;
    };

export type BinSource = 'dataset' | 'service' | 'cache' | 'rules';

/** The room of BINs adds the record itself. */
export interface BinResult {
  /** 6 to 8 digits. */
  bin: string;
  source: BinSource;
  /** ISO 8601 date. */
  asOf?: string | undefined;
  digitsMatched: number;
  /** The facts are more than two years old. */
  outdated?: boolean | undefined;
  /** The card is a test card of a payment provider. */
  testData?: boolean | undefined;
  /** The BIN lookup service, which may have more facts, could not be called. */
  isServiceUnavailable?: boolean | undefined;
}

/** Why a look-up failed. Never holds the input, which may be a whole card number. */
export interface BinError {
  code: ProblemCode;
  /** In place of the code's own text, if more is known. */
  meaning?: string | undefined;
  reference: string | undefined;
  retryAfterSeconds?: number | undefined;
}

/** The look-up form with its result or error; neither for the empty form. */
export interface BinPanel {
  result?: BinResult | undefined;
  error?: BinError | undefined;
}

export interface NextStep {
  label: string;
  url: string;
  /** Sent as a POST with the CSRF token. */
  isForm?: boolean;
  other?: { label: string; url: string } | undefined;
}

/**
 * The data of each page, which has the name of its template under `views`. A file of a higher room that fills a page
 * declares its data here.
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
    /** Back-end services that used it; `lastAt` in milliseconds since the epoch. */
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
    /** The secret of the link, as in the path. */
    link: string;
    /** Sent with the form. */
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
    /** The outcome for each connection, as the end of a sentence. */
    connections: readonly { name: string; words: string }[];
  };
  'bin/page': {
    page: SignedInFrame;
    bin: BinPanel;
  };
  'errors/error': {
    page: PageFrame;
    code: ProblemCode;
    /** 8 characters; only if an administrator can look the failure up by it. */
    reference: string | undefined;
    /** ISO 8601 instant. */
    time: string;
    /** The next five replace the code's own texts, if more is known. For the user, each a sentence. */
    title?: string | undefined;
    cause?: string | undefined;
    whose?: WhoseFault | undefined;
    nextStep?: string | undefined;
    step?: NextStep | undefined;
    retryAfterSeconds?: number | undefined;
  };
  'errors/problem': {
    page: PageFrame;
    code: ProblemCode;
  };
}

export type PageName = keyof PageData;
