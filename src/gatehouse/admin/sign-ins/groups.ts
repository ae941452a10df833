/** Groups failed sign-ins by cause and app, the largest group first. */
import type { SignInView } from './view.ts';

export interface FailureGroup {
  cause: string;
  text: string;
  field: string | null;
  app: string;
  appName: string;
  count: number;
  /** The start time and id of the newest sign-in in the group. */
  lastAt: string;
  id: string;
}

/** Groups sign-ins, ignoring those without a cause. @param signIns newest first */
export function failureGroups(signIns: readonly SignInView[]): FailureGroup[] {
  const groups = new Map<string, FailureGroup>();
  for (const { id, app, appName, cause, startedAt: lastAt } of signIns) {
    if (!cause) continue;
    const key = `${cause.code} ${app}`;
    const { code, text, field } = cause;
    const group = groups.get(key) ?? { cause: code, text, field, app, appName, count: 0, lastAt, id };
    groups.set(key, { ...group, count: group.count + 1 });
  }
  return [...groups.values()].sort((left, right) => right.count - left.count || (left.lastAt < right.lastAt ? 1 : -1));
}
