/** The outcome of an audit entry, and the words for a change that failed after its entry was written. Pure. */
import { AppError, PROBLEMS, type ProblemCode } from '../../shared/errors.ts';
import { uncapitalised } from '../../shared/text.ts';

export const AUDIT_OUTCOMES = [
  ...['signed_in', 'connected', 'ended', 'succeeded', 'failed', 'refused', 'passed'],
  ...['unclear_refusal', 'unavailable', 'unusable', 'app_fault'],
  ...['revoked', 'unsupported', 'pending', 'unconfirmed', 'confirmed', 'abandoned'],
  // Of a change. `unknown`: the storage did not confirm whether it was made.
  ...['not_done', 'unknown'],
] as const;
export type AuditOutcome = (typeof AUDIT_OUTCOMES)[number];

export interface Outcome {
  outcome?: AuditOutcome | undefined;
  /** Why Gatehouse did not make a change, or refused the administration. */
  code?: ProblemCode | undefined;
}

export function failedOutcome(error: unknown): Outcome {
  const code = error instanceof AppError ? error.code : 'internal';
  return { outcome: code === 'storage_unavailable' ? 'unknown' : 'not_done', code };
}

/** @returns undefined for any other outcome */
export function failedWords({ outcome, code }: Outcome): string | undefined {
  if (outcome !== 'not_done' && outcome !== 'unknown') return undefined;
  if (code === undefined) return 'not done by the provider';
  const start = outcome === 'unknown' ? 'not known whether it was done' : 'not done';
  return `${start}: ${uncapitalised(PROBLEMS[code]?.title ?? code)}`;
}
