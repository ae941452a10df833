/**
 * Three-way merge of a record that two administrators change at the same time: a member that only one of them changed
 * keeps that change, lists are merged by their entries, and what both changed differently is a conflict. Pure.
 */
import { createHash } from 'node:crypto';
import { isObject } from '../../shared/json.ts';

/** The members of a record or a form. A member that a form lacks is one that it leaves as it is. */
export type Members = Readonly<Record<string, unknown>>;

export interface Conflict {
  member: string;
  /** For an entry of a list: its name, and its position in the merged list unless the form has removed it. */
  entry?: { name: string; position: number | undefined };
  /** The current value; undefined if there is none. */
  theirs: unknown;
}

export interface Merge {
  /** Where there is a conflict, this has the value of the form. */
  merged: Record<string, unknown>;
  /** The members that have a change which the form does not make. */
  kept: string[];
  conflicts: Conflict[];
}

/** Characters of a digest: 36 bits suffice to notice changes, and keep forms with long lists short. */
const DIGEST_LENGTH = 6;

/** Returns digests of the members, by which `mergeMembers` finds what was changed since. */
export function fingerprintOf(members: Members): string {
  return Object.entries(members)
    .map(([member, value]) => `${member}=${digestOf(value)}`)
    .join(' ');
}

/** The form of a fingerprint, so that a text from a browser can be checked. */
export const FINGERPRINT = /^[\w/-]+=[\w.-]*(?: [\w/-]+=[\w.-]*)*$/;

/** Returns the names of the members that differ. */
export function changedMembers(before: Members, after: Members): string[] {
  return Object.keys(after).filter((member) => digestOf(before[member]) !== digestOf(after[member]));
}

/** @param base the fingerprint of the record that the form showed */
export function mergeMembers(base: string, current: Members, form: Members): Merge {
  const digests = new Map(base.split(' ').map((pair) => pair.split('=') as [string, string]));
  const merged: Record<string, unknown> = { ...current };
  const kept: string[] = [];
  const conflicts: Conflict[] = [];
  for (const [member, value] of Object.entries(form)) {
    const before = digests.get(member) ?? '';
    const theirs = digestOf(current[member]);
    const own = digestOf(value);
    if (own !== before) merged[member] = value;
    if (theirs === before || theirs === own) continue;
    if (own === before) {
      kept.push(member);
      continue;
    }
    const result = mergeLists(before, current[member], value);
    if (result === undefined) {
      conflicts.push({ member, theirs: current[member] });
      continue;
    }
    merged[member] = result.merged;
    if (result.hasKept) kept.push(member);
    conflicts.push(...result.conflicts.map((conflict) => ({ ...conflict, member })));
  }
  for (const member of Object.keys(current)) {
    if (!Object.hasOwn(form, member) && digestOf(current[member]) !== (digests.get(member) ?? '')) kept.push(member);
  }
  return { merged, kept, conflicts };
}

/**
 * Returns undefined if not all are lists, or one is empty: an empty list can mean that everything is allowed, which
 * none of its entries says.
 */
function mergeLists(before: string, current: unknown, form: unknown) {
  const isList = /^$|\.$/.test(before) && Array.isArray(current) && Array.isArray(form);
  if (!isList || current.length === 0 || form.length === 0) return undefined;
  const entriesBefore = new Map(
    before
      .split('.')
      .slice(0, -1)
      .map((digest) => [digest.slice(0, DIGEST_LENGTH), digest]),
  );
  const [theirEntries, ownEntries] = [current, form].map(
    (list) => new Map(list.map((entry) => [shortDigest(nameOf(entry)), entry])),
  ) as [Map<string, unknown>, Map<string, unknown>];
  const merged: unknown[] = [];
  const conflicts: Omit<Conflict, 'member'>[] = [];
  let hasKept = false;
  for (const key of new Set([...theirEntries.keys(), ...ownEntries.keys()])) {
    const [theirs, own] = [theirEntries.get(key), ownEntries.get(key)];
    const [digestBefore, theirDigest, ownDigest] = [entriesBefore.get(key), entryDigest(theirs), entryDigest(own)];
    const isTheirs = ownDigest === digestBefore;
    const entry = isTheirs ? theirs : own;
    if (theirDigest !== digestBefore && theirDigest !== ownDigest) {
      if (isTheirs) hasKept = true;
      else {
        const position = entry === undefined ? undefined : merged.length;
        conflicts.push({ entry: { name: nameOf(own ?? theirs), position }, theirs });
      }
    }
    if (entry !== undefined) merged.push(entry);
  }
  return merged.length === 0 ? undefined : { merged, conflicts, hasKept };
}

/** The digest of a list has a dot after each entry; that of an absent value is empty, like that of an empty list. */
function digestOf(value: unknown): string {
  if (value === undefined) return '';
  return Array.isArray(value) ? value.map((entry) => `${entryDigest(entry)}.`).join('') : shortDigest(value);
}

/** An entry with a name is the same entry after a change of its other members. */
function entryDigest(entry: unknown): string | undefined {
  if (entry === undefined) return undefined;
  return isObject(entry) ? shortDigest(nameOf(entry)) + shortDigest(entry) : shortDigest(entry);
}

const nameOf = (entry: unknown): string => String(isObject(entry) ? entry.name : entry);

const shortDigest = (value: unknown): string =>
  createHash('sha256').update(canonical(value)).digest('base64url').slice(0, DIGEST_LENGTH);

/** JSON with sorted names. */
const canonical = (value: unknown): string =>
  JSON.stringify(value, (_name, inner) =>
    isObject(inner) ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1))) : inner,
  );
