/** The outcome of a change that failed after its entry was written, and its words. Pure. */
import { AppError, PROBLEMS, type ProblemCode } from '../../shared/errors.ts';
import { uncapitalised } from '../../shared/text.ts';

/** `unknown`: the storage did not confirm whether the change was made. */
const FAILED = /^(not_done|unknown): (\w+)$/;

export function failedOutcome(error: unknown): string {
  const code = error instanceof AppError ? error.code : 'internal';
  return `${code === 'storage_unavailable' ? 'unknown' : 'not_done'}: ${code}`;
}

export function isNotDone(outcome: string | undefined): boolean {
  return resultOf(outcome) === 'not_done';
}

export function isUnknown(outcome: string | undefined): boolean {
  return resultOf(outcome) === 'unknown';
}

/** @returns undefined for any other outcome */
export function failedWords(outcome: string | undefined): string | undefined {
  const [, result, reason] = FAILED.exec(outcome ?? '') ?? [];
  if (reason === undefined) return undefined;
  if (!Object.hasOwn(PROBLEMS, reason)) return `not done by the ${reason}`;
  const start = result === 'unknown' ? 'not known whether it was done' : 'not done';
  return `${start}: ${uncapitalised(PROBLEMS[reason as ProblemCode].title)}`;
}

const resultOf = (outcome: string | undefined): string | undefined => FAILED.exec(outcome ?? '')?.[1];
