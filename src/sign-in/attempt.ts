/** Owns what a sign-in attempt is as it is kept: how it grows request by request, whose it is, and in which lists it stands. */
import { keys } from '../storage/keys.ts';
import type { Write } from '../storage/store.ts';
import type { SignInFacts, SignInFailure } from './failure.ts';
import type { Step } from './steps.ts';

export type SignInOutcome = 'signed_in' | 'connected' | 'refused' | 'failed';

/** Times in milliseconds since the epoch. Nothing here takes a token, a code, a state or a secret. */
export interface SignInRecord {
  /** The reference of the request that started it, or of the one that failed where none is known to have. */
  id: string;
  app: string;
  purpose: 'sign_in' | 'connect' | 'unknown';
  startedAt: number;
  endedAt?: number | undefined;
  outcome?: SignInOutcome | undefined;
  failure?: SignInFailure | 'internal' | undefined;
  steps: Step[];
  /** What was on error pages. */
  references: string[];
  userId?: string | undefined;
  name?: string | undefined;
  email?: string | undefined;
  /** Nobody was known: it is who signed in with the same browser soon before or after, or whom a refused ID token named. */
  presumed?: boolean | undefined;
  address?: string | undefined;
  /** In words. */
  browser?: string | undefined;
  /** Hash of the id that the browser's pending requests are kept under: tells whether another one came back. */
  browserHash?: string | undefined;
  facts: SignInFacts;
}

/** What one request adds. */
export type SignInChanges = Partial<Omit<SignInRecord, 'id' | 'steps' | 'references' | 'facts'>> & {
  steps: readonly Step[];
  reference: string;
  facts?: SignInFacts;
};

const MOST_STEPS = 60;
const MOST_REFERENCES = 10;

/** The record with what one request adds: what was known stays, and nothing grows without bound. */
export function merged(record: SignInRecord, { steps, reference, facts, ...rest }: SignInChanges): SignInRecord {
  const known = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined));
  return {
    ...record,
    ...known,
    ...whoAfter(record, rest),
    // Where it began is the start's to say.
    address: record.address ?? rest.address,
    browser: record.browser ?? rest.browser,
    browserHash: record.browserHash ?? rest.browserHash,
    // An attempt that succeeded once did so, whatever is tried with its callback afterwards.
    ...(record.outcome === 'signed_in' || record.outcome === 'connected'
      ? { outcome: record.outcome, failure: undefined }
      : {}),
    startedAt: record.startedAt,
    steps: [...record.steps, ...steps].slice(0, MOST_STEPS),
    references: [...new Set([...record.references, reference])].slice(0, MOST_REFERENCES),
    facts: { ...record.facts, ...facts },
  };
}

/** Whoever is known stays so, whatever else is presumed; a presumption ends where somebody is known. */
function whoAfter(record: SignInRecord, given: Partial<SignInRecord>): Partial<SignInRecord> {
  const { userId, name, email, presumed } = given.userId === undefined && isKnown(record) ? record : given;
  if (userId === undefined && email === undefined) return {};
  return { userId: userId ?? record.userId, name: name ?? record.name, email: email ?? record.email, presumed };
}

/** The lists that a record may stand in. */
export function listsOf({ userId, email, browserHash }: SignInRecord): string[] {
  const whom = [userId, email && folded(email), browserHash && ofBrowser(browserHash)].filter(
    (one) => one !== undefined && one !== '',
  ) as string[];
  return [
    keys.signIns('all'),
    keys.signIns('open'),
    keys.signIns('failed'),
    ...whom.map((one) => keys.signIns('of', one)),
  ];
}

/** @param before as it stood, in the lists that were written with it: what did not change is not written again */
export function placesOf(record: SignInRecord, before: SignInRecord | undefined): Write[] {
  const [past, now] = [before ? standsIn(before) : [], standsIn(record)];
  return [
    ...now
      .filter((index) => !past.includes(index))
      .map((index) => ({ index, add: record.id, score: record.startedAt })),
    ...past.filter((index) => !now.includes(index)).map((index) => ({ index, remove: record.id })),
  ];
}

function standsIn(record: SignInRecord): string[] {
  const [open, failed] = [keys.signIns('open'), keys.signIns('failed')];
  return listsOf(record).filter(
    (index) => (index !== open || record.endedAt === undefined) && (index !== failed || record.failure !== undefined),
  );
}

/** Somebody is known for certain. */
export const isKnown = ({ userId, presumed }: Pick<SignInRecord, 'userId' | 'presumed'>): boolean =>
  userId !== undefined && !presumed;

export const ofBrowser = (hash: string): string => `browser ${hash}`;
export const folded = (email: string): string => email.trim().toLowerCase();
