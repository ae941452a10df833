/** Applies a rule to verified claims, and finds out why it does not hold. Pure. */
import { isObject } from '../../shared/json.ts';
import { containsCardNumber } from '../../shared/observability/card-numbers.ts';
import { claimAt, isEmailClaim, pointerMembers, pointerTo } from '../../shared/provider/claim-path.ts';
import type { Claims } from '../../shared/provider/token-response.ts';
import type { ClaimObservation } from '../sign-in-record/claim-observation.ts';

export interface ClaimRule {
  /** The name of a claim, or a JSON Pointer to it. */
  claim: string;
  values: readonly string[];
}

type Seen = ClaimObservation['seen'];

/** A claim is one text or a list of texts. Values are compared character by character, addresses as `isSameAddress` does. */
export function holds(claims: Claims, rule: ClaimRule): boolean {
  return hasValue(claimAt(claims, rule.claim), rule);
}

/**
 * The same, but an e-mail address counts only with `email_verified: true` beside it: at many providers users enter any
 * address.
 */
export function holdsVerified(claims: Claims, rule: ClaimRule): boolean {
  if (!isEmailClaim(rule.claim)) return holds(claims, rule);
  // `email_verified` is about the claim `email`, and not about one with the name `/email`.
  return hasValue(claims.email, rule) && verificationSeen(claims) === undefined;
}

/** Says why the rule does not hold. */
export function observe(claims: Claims, rule: ClaimRule): ClaimObservation {
  const { claim } = rule;
  const seen = (holds(claims, rule) ? verificationSeen(claims) : undefined) ?? seenIn(claims, rule);
  const isElsewhere = seen === 'absent' || seen === 'other_values' || seen === 'other_form';
  return { claim, seen, elsewhere: isElsewhere ? findElsewhere(claims, rule) : undefined };
}

function hasValue(value: unknown, { claim, values }: ClaimRule): boolean {
  if (isEmailClaim(claim)) return typeof value === 'string' && values.some((listed) => isSameAddress(listed, value));
  return textsIn(value).some((text) => values.includes(text));
}

/**
 * Only A to Z equal a to z: other letters that fold to these, such as the Kelvin sign, make a different mailbox, which
 * may belong to another person.
 */
function isSameAddress(first: string, second: string): boolean {
  const folded = (address: string) => address.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase());
  return folded(first) === folded(second);
}

function textsIn(value: unknown): string[] {
  return (Array.isArray(value) ? value : [value]).filter((text) => typeof text === 'string');
}

/** Returns undefined for a verified address. A text `"true"` is not what OpenID Connect Core section 5.1 defines. */
function verificationSeen({ email_verified: verified = null }: Claims): Seen | undefined {
  if (verified === true) return undefined;
  if (verified === null) return 'verification_absent';
  return verified === false ? 'verification_false' : 'verification_no_boolean';
}

function seenIn(claims: Claims, rule: ClaimRule): Seen {
  const value = claimAt(claims, rule.claim);
  if (value === undefined) return isLeftOut(claims, rule.claim) ? 'left_out' : 'absent';
  const texts = textsIn(value);
  if (isEmailClaim(rule.claim) && typeof value !== 'string') return 'other_form';
  if (Array.isArray(value) ? value.length > 0 && texts.length === 0 : texts.length === 0) return 'other_form';
  const isLike = (fold: (text: string) => string) => {
    const folded = new Set(rule.values.map(fold));
    return texts.some((text) => folded.has(fold(text)));
  };
  if (isLike(withoutCase)) return 'other_case';
  if (isLike(withoutEdges)) return 'alike';
  const hasPart = texts.some((text) => text.split(/[\s,;|]+/).some((part) => rule.values.includes(part)));
  return hasPart ? 'joined' : 'other_values';
}

const withoutCase = (text: string) => text.normalize('NFKC').toLowerCase();
/** The time is linear in the length, also for a text with thousands of spaces: a provider, or a user there, chose it. */
const withoutEdges = (text: string) => /^[\s/]*(.*[^\s/])?/s.exec(withoutCase(text))?.[1] ?? '';

/** OpenID Connect Core section 5.6.2, and Entra ID's sign for more groups than fit into a token. */
function isLeftOut(claims: Claims, name: string): boolean {
  const members = [name, pointerMembers(name)?.[0] ?? name];
  const { _claim_names: names, hasgroups } = claims;
  const isNamed = isObject(names) && members.some((member) => Object.hasOwn(names, member));
  return isNamed || (members.includes('groups') && (hasgroups === true || hasgroups === 'true'));
}

/** Claims that users often set themselves (OpenID Connect Core section 5.1), or that are about the token. */
const NEVER_SUGGESTED = new Set(
  (
    'name given_name family_name middle_name nickname preferred_username profile picture website email gender birthdate ' +
    'zoneinfo locale phone_number address sub iss aud azp jti sid nonce acr amr scope _claim_names _claim_sources'
  ).split(' '),
);
/** Claims have a few levels; deeper ones are not searched. */
const MAX_DEPTH = 5;
/** What a record shows of a name: no text of any length or kind that a provider may send. */
const SHOWN_NAME = /^[\x21-\x7e]{1,200}$/;

/** Finds another claim that has a value of the rule, or else one with the name of the rule's claim. */
function findElsewhere(claims: Claims, rule: ClaimRule): ClaimObservation['elsewhere'] {
  const ruleValue = claimAt(claims, rule.claim);
  const shown = [...shownClaims(claims)].filter(({ at, value }) => value !== ruleValue && !containsCardNumber(at));
  const byValue = shown.find(({ members, value }) => !NEVER_SUGGESTED.has(members[0] ?? '') && hasValue(value, rule));
  if (byValue) return { at: byValue.at, by: 'value' };
  if (textsIn(ruleValue).length > 0) return undefined;
  const ruleMembers = pointerMembers(rule.claim) ?? [rule.claim];
  const isSame = (members: readonly string[], others: readonly string[]) =>
    withoutCase(pointerTo(members)) === withoutCase(pointerTo(others));
  const named = shown.filter(({ value }) => textsIn(value).length > 0);
  const byCase = named.find(({ members }) => isSame(members, ruleMembers));
  if (byCase) return { at: byCase.at, by: 'case' };
  const lastName = rule.claim.split(/[./]/).slice(-1);
  const byName = named.find(({ members }) => isSame(members.slice(-1), lastName));
  return byName && { at: byName.at, by: 'name' };
}

/**
 * Yields each claim with the name that a rule would have for it, if that can be shown. It begins with the name of the
 * object that contains the claim: a long one, repeated for thousands of claims, would exhaust the memory.
 */
function* shownClaims(
  claims: Readonly<Record<string, unknown>>,
  parents: readonly string[] = [],
): Generator<{ at: string; members: readonly string[]; value: unknown }> {
  for (const [member, value] of Object.entries(claims)) {
    const members = [...parents, member];
    const at = parents.length === 0 ? member : pointerTo(members);
    if (!SHOWN_NAME.test(at)) continue;
    yield { at, members, value };
    if (isObject(value) && members.length < MAX_DEPTH) yield* shownClaims(value, members);
  }
}
