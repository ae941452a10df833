/** Names in the environment that nothing reads: misspelt settings, and what OpenTelemetry defines and Gatehouse does not follow. */
import type { SettingTable } from './setting.ts';

/** As many changes as a misspelt name may have: a fourth of its characters, so that `REDIS_URI` is one and `PATH` is no `PORT`. */
const CHARACTERS_FOR_EACH_CHANGE = 4;

/** Pure. Sentences that name the setting, and never its value. */
export function ignoredSettings(env: Readonly<Record<string, string | undefined>>, table: SettingTable): string[] {
  const known = new Set(
    Object.entries(table).flatMap(([name, { secret }]) => (secret ? [name, `${name}_FILE`] : [name])),
  );
  return Object.keys(env)
    .filter((name) => !known.has(name) && env[name]?.trim())
    .sort()
    .flatMap((name) => warningOf(name, [...known]) ?? []);
}

function warningOf(name: string, known: readonly string[]): string | undefined {
  if (name.startsWith('OTEL_'))
    return `${name} is ignored: docs/operating-reference.md has the OTEL_ settings that are followed.`;
  const max = Math.floor(name.length / CHARACTERS_FOR_EACH_CHANGE);
  const [nearest] = known
    // A difference in length takes at least as many changes, and is far quicker to find out.
    .filter((setting) => Math.abs(setting.length - name.length) <= max)
    .map((setting) => ({ setting, changes: changesBetween(name, setting) }))
    .filter(({ changes }) => changes <= max)
    .sort((one, other) => one.changes - other.changes);
  return nearest && `${name} is ignored. Did you mean ${nearest.setting}?`;
}

/** The fewest characters to insert, delete or replace (Levenshtein). */
function changesBetween(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, at) => at);
  for (const [at, character] of [...from].entries()) {
    const next = [at + 1];
    for (let column = 1; column <= to.length; column += 1) {
      const replaced = (row[column - 1] ?? 0) + (to[column - 1] === character ? 0 : 1);
      next.push(Math.min(replaced, (row[column] ?? 0) + 1, (next[column - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[to.length] ?? 0;
}
