/**
 * Finds environment variables that are ignored: misspelt settings, and settings of OpenTelemetry and of proxies that
 * Gatehouse does not support.
 */
import type { SettingTable } from './setting.ts';

/**
 * A misspelt name may differ in a fourth of its characters: `REDIS_URI` counts as `REDIS_URL`, and `PATH` not as
 * `PORT`.
 */
const CHARACTERS_PER_CHANGE = 4;

/** Returns sentences that name the ignored variables, never their values. Pure. */
export function ignoredSettings(env: Readonly<Record<string, string | undefined>>, table: SettingTable): string[] {
  const settings = new Set(
    Object.entries(table).flatMap(([name, { secret }]) => (secret ? [name, `${name}_FILE`] : [name])),
  );
  const spelledLower = Object.keys(table).filter((name) => table[name]?.lowerCase);
  const isSet = (name: string) => Boolean(env[name]?.trim());
  const hasProxy = isSet('HTTPS_PROXY') || isSet('https_proxy');
  const warningOfName = (name: string) => {
    const lowerName = name.toLowerCase();
    const isOverridden =
      spelledLower.includes(name) && isSet(lowerName) && env[lowerName]?.trim() !== env[name]?.trim();
    if (isOverridden) return `${name} is ignored, because ${lowerName} is set to another value.`;
    if (lowerName === 'no_proxy' && hasProxy && ADDRESS_RANGE.test(env[name] ?? ''))
      return `${name} lists ranges of addresses, which are ignored: list each host.`;
    if (settings.has(name) || spelledLower.some((setting) => setting.toLowerCase() === name)) return undefined;
    return OTHER_PROXY.test(name) && hasProxy ? undefined : warningOf(name, [...settings]);
  };
  return Object.keys(env)
    .filter(isSet)
    .sort()
    .flatMap((name) => warningOfName(name) ?? []);
}

/** An entry such as `10.0.0.0/8` or `fd00::/8`, which undici compares with the host as text. */
const ADDRESS_RANGE = /[\d:]\/\d+(?:[\s,]|$)/;

/** Other programs use these for plain http, and for every protocol. */
const OTHER_PROXY = /^(?:http|all)_proxy$/i;

function warningOf(name: string, settings: readonly string[]): string | undefined {
  if (OTHER_PROXY.test(name))
    return `${name} is ignored: set HTTPS_PROXY, since only https calls leave through a proxy.`;
  if (name.startsWith('OTEL_'))
    return `${name} is ignored: docs/operating-reference.md lists the supported OTEL_ settings.`;
  const maxChanges = Math.floor(name.length / CHARACTERS_PER_CHANGE);
  const [similarSetting] = settings
    // The difference in length is a lower bound of the changes, and far cheaper to compute.
    .filter((setting) => Math.abs(setting.length - name.length) <= maxChanges)
    .map((setting) => ({ setting, changes: changesBetween(name.toUpperCase(), setting) }))
    .filter(({ changes }) => changes <= maxChanges)
    .sort((a, b) => a.changes - b.changes);
  return similarSetting && `${name} is ignored. Did you mean ${similarSetting.setting}?`;
}

/** Returns the Levenshtein distance. */
function changesBetween(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (const [index, character] of [...from].entries()) {
    const next = [index + 1];
    for (let column = 1; column <= to.length; column += 1) {
      const replaced = (row[column - 1] ?? 0) + (to[column - 1] === character ? 0 : 1);
      next.push(Math.min(replaced, (row[column] ?? 0) + 1, (next[column - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[to.length] ?? 0;
}
