/** Words for the outcome of a change that was announced in the trail and then not made. Pure. */
import { PROBLEMS, type ProblemCode } from '../../shared/errors.ts';
import { uncapitalised } from '../../shared/text.ts';

/** @returns undefined for any other outcome */
export function notDoneWords(outcome: string | undefined): string | undefined {
  const [, reason] = /^not_done: (\w+)$/.exec(outcome ?? '') ?? [];
  if (reason === undefined) return undefined;
  if (!Object.hasOwn(PROBLEMS, reason)) return `not done by the ${reason}`;
  return `not done: ${uncapitalised(PROBLEMS[reason as ProblemCode].title)}`;
}
