/** Words for the outcome of a change that was announced in the trail and then not made. Pure. */
import { PROBLEMS, type ProblemCode } from '../errors.ts';

/** @returns undefined for any other outcome */
export function notDoneWords(outcome: string | undefined): string | undefined {
  const [, reason] = /^not_done: (\w+)$/.exec(outcome ?? '') ?? [];
  if (reason === undefined) return undefined;
  if (!Object.hasOwn(PROBLEMS, reason)) return `not done by the ${reason}`;
  const { title } = PROBLEMS[reason as ProblemCode];
  return `not done: ${title.charAt(0).toLowerCase()}${title.slice(1)}`;
}
