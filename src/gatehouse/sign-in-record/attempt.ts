/** The record of one sign-in attempt: what each request adds, its user, and the lists that contain it. Pure. */
import type { SignInOutcome } from '../../shared/observability/events.ts';
import { keys } from '../../shared/storage/keys.ts';
import type { Write } from '../../shared/storage/store.ts';
import type { SignInFacts, SignInFailure } from './failures.ts';
import type { Step } from './steps.ts';

export type SignInPurpose = 'sign_in' | 'connect';

/** Times are in milliseconds since the epoch. No field may hold a token, a code, a state or a secret. */
export interface SignInRecord {
  /** Reference of the request that started the attempt or, if the start has no record, of the one that failed. */
  id: string;
  app: string;
  purpose: SignInPurpose | 'unknown';
  /** True if an administrator tried the app. */
  trial?: boolean | undefined;
  startedAt: number;
  endedAt?: number | undefined;
  outcome?: SignInOutcome | undefined;
  failure?: SignInFailure | 'internal' | undefined;
  steps: Step[];
  /** References of the start and of the error pages. */
  references: string[];
  userId?: string | undefined;
  name?: string | undefined;
  email?: string | undefined;
  /** The e-mail address comes from a refused ID token. */
  presumed?: boolean | undefined;
  address?: string | undefined;
  /** Name of the browser and the system, for display. */
  browser?: string | undefined;
  /** Hash of the browser's secret at the start: shows whether another browser opened the callback. */
  browserHash?: string | undefined;
  facts: SignInFacts;
}

/** The changes that one request makes to a record. */
export type SignInChanges = Partial<Omit<SignInRecord, 'id' | 'steps' | 'references' | 'facts'>> & {
  steps: readonly Step[];
  reference: string;
  facts?: SignInFacts;
};

const MAX_STEPS = 60;
const MAX_REFERENCES = 10;

/** Adds the changes of a request. Undefined values change nothing; steps and references are bounded. */
export function withRequest(record: SignInRecord, { steps, reference, facts, ...rest }: SignInChanges): SignInRecord {
  const defined = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined));
  return {
    ...record,
    ...defined,
    ...userAfter(record, rest),
    // The attempt may succeed after another browser has opened its callback in vain.
    failure: rest.outcome === undefined ? record.failure : rest.failure,
    // These describe the start.
    address: record.address ?? rest.address,
    browser: record.browser ?? rest.browser,
    browserHash: record.browserHash ?? rest.browserHash,
    startedAt: record.startedAt,
    steps: [...record.steps, ...steps].slice(0, MAX_STEPS),
    references: [...new Set([...record.references, reference])].slice(0, MAX_REFERENCES),
    facts: { ...record.facts, ...facts },
  };
}

/** A verified user is never overwritten by an unproven e-mail address, but replaces one. */
function userAfter(record: SignInRecord, changes: Partial<SignInRecord>): Partial<SignInRecord> {
  const keepsUser = changes.userId === undefined && record.userId !== undefined;
  const { userId, name, email, presumed } = keepsUser ? record : changes;
  if (userId === undefined && email === undefined) return {};
  return { userId, name: name ?? record.name, email: email ?? record.email, presumed };
}

/** Returns every list that may hold the record. */
export function listsOf({ userId, email }: SignInRecord): string[] {
  const users = [userId, email && folded(email)].filter((user) => user !== undefined && user !== '');
  return [
    keys.signIns('all'),
    keys.signIns('open'),
    keys.signIns('failed'),
    ...users.map((user) => keys.signIns('of', user)),
  ];
}

/** Returns the writes that move a record from the lists of its former version to those of the new one. */
export function listWrites(record: SignInRecord, formerRecord: SignInRecord | undefined): Write[] {
  const [oldLists, newLists] = [formerRecord ? currentLists(formerRecord) : [], currentLists(record)];
  return [
    ...newLists
      .filter((index) => !oldLists.includes(index))
      .map((index) => ({ index, add: record.id, score: record.startedAt })),
    ...oldLists.filter((index) => !newLists.includes(index)).map((index) => ({ index, remove: record.id })),
  ];
}

function currentLists(record: SignInRecord): string[] {
  const [open, failed] = [keys.signIns('open'), keys.signIns('failed')];
  return listsOf(record).filter(
    (index) => (index !== open || record.endedAt === undefined) && (index !== failed || record.failure !== undefined),
  );
}

/** E-mail addresses are compared without regard to case. */
export const folded = (email: string): string => email.trim().toLowerCase();
