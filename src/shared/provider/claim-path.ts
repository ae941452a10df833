/** Finds a claim by the name in a rule: exactly this name, or a JSON Pointer (RFC 6901) to a nested claim. Pure. */
import { isObject } from '../json.ts';

/**
 * Returns the value of the claim of exactly this name, since names may contain dots and slashes
 * (`https://example.com/roles`); otherwise the value at this JSON Pointer (`/realm_access/roles`).
 * @returns undefined if it is absent, or null (OpenID Connect Core section 5.3.2)
 */
export function claimAt(claims: Readonly<Record<string, unknown>>, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name] ?? undefined;
  const members = pointerMembers(name) ?? [];
  return members.length === 0 ? undefined : (members.reduce(memberOf, claims as unknown) ?? undefined);
}

function memberOf(value: unknown, member: string): unknown {
  if (Array.isArray(value)) return /^(0|[1-9]\d*)$/.test(member) ? value[Number(member)] : undefined;
  return isObject(value) && Object.hasOwn(value, member) ? value[member] : undefined;
}

/** Returns the names of the members on the way, or undefined for a text that is no JSON Pointer. */
export function pointerMembers(name: string): string[] | undefined {
  if (!name.startsWith('/') || /~(?![01])/.test(name)) return undefined;
  return name
    .slice(1)
    .split('/')
    .map((member) => member.replaceAll('~1', '/').replaceAll('~0', '~'));
}

export function pointerTo(members: readonly (string | number)[]): string {
  return members.map((member) => `/${String(member).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}

/** True if the name and a JSON Pointer both mean the claim `email`. */
export function isEmailClaim(name: string): boolean {
  return name === 'email' || name === '/email';
}

/**
 * Returns a warning for a name that is probably meant as a path, but is none. A claim may have such a name, so the rule
 * is not refused; a URI is the usual name of a provider's own claim (OpenID Connect Core section 5.1.2).
 */
export function claimNameWarning(name: string): string | undefined {
  const members = pointerMembers(name);
  const isPath = members?.every((member) => member !== '');
  if (isPath || /^[a-z][a-z0-9+.-]*:[^[\]]+$/i.test(name) || !/[./#[\]~$]|->|\s/.test(name)) return undefined;
  const meant = name
    .replace(/^[#$]/, '')
    .split(/->|[./[\]'"\s]+/)
    .filter((member) => member !== '');
  const isExample = meant.length > 1 || (meant.length === 1 && name.startsWith('/'));
  const example = isExample ? `: ${pointerTo(meant)}` : ', such as /realm_access/roles';
  return `“${name}” is read as the name of one claim. To name a nested claim, write a JSON Pointer (RFC 6901)${example}`;
}
