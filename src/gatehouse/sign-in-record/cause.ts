/** Why a sign-in failed, in words for an administrator: the cause, what to do, and which setting to look at first. */
import type { SignInRecord } from './attempt.ts';
import { type AppField, failureOf, type Text } from './failures.ts';

export interface SignInCause {
  code: string;
  /** One sentence. */
  text: string;
  advice: string;
  field?: AppField | undefined;
}

/** The time that users need at the provider: later, the browser is unlikely to come back. */
const MAX_AT_PROVIDER_MS = 120_000;

const NOTHING_CAME_BACK: SignInCause = {
  code: 'nothing_came_back',
  text: 'Started, but the browser did not come back: the provider probably shows an error page of its own.',
  advice:
    'Most likely the callback URL is not registered at the provider, or differs by one character. Compare it with the one below. The client ID may also be wrong, or the user closed the page.',
  field: 'callbackUrls',
};

const INTERNAL: SignInCause = {
  code: 'internal',
  text: 'Something went wrong here, such as a storage that did not respond.',
  advice: 'Look for the request in the log.',
};

/** @returns undefined for an attempt that succeeded, or that may still be under way */
export function causeOf(record: SignInRecord, now: number): SignInCause | undefined {
  const { failure, outcome, startedAt, facts } = record;
  if (failure === 'internal') return INTERNAL;
  if (failure !== undefined) {
    const { causeCode = failure, words, advice, field } = failureOf(failure, facts);
    const inWords = (text: Text) => (typeof text === 'string' ? text : text(facts, minutesText(record)));
    return { code: causeCode, text: inWords(words), advice: inWords(advice), field };
  }
  return outcome === undefined && now - startedAt >= MAX_AT_PROVIDER_MS ? NOTHING_CAME_BACK : undefined;
}

function minutesText({ startedAt, endedAt = startedAt }: SignInRecord): string {
  const minutes = Math.round((endedAt - startedAt) / 60_000);
  return `${minutes} minute${minutes === 1 ? '' : 's'}`;
}
