/** What a sign-in saw of the claim of a rule, in words for an administrator: names of claims, and never their values. */

/** `seen` is part of the code of the cause. */
export interface ClaimObservation {
  /** The claim as the rule names it. */
  claim: string;
  seen: keyof typeof WORDS;
  /** A claim, as a rule would name it, that has a value of the rule, or a name like that of the rule's claim. */
  elsewhere?: { at: string; by: keyof typeof ELSEWHERE } | undefined;
}

interface Words {
  /** Continues “the claim …”. */
  seen: string;
  advice: string;
}

const UNVERIFIED =
  'Let the provider send email_verified as true for this account. Until then, name administrators by another claim.';

const WORDS = {
  absent: {
    seen: 'is absent from the ID token and from userinfo',
    advice: 'Let the provider send it: often a scope, a mapper or an assignment of this user is missing.',
  },
  left_out: {
    seen: 'was left out by the provider, which names another source for it, as for users with very many groups',
    advice:
      'Gatehouse does not fetch it. Let the provider send only the groups that are assigned to this app, or use roles of the app.',
  },
  other_values: {
    seen: 'has none of the values of the rule',
    advice: 'Compare the values of the rule with those that the provider sends for this account.',
  },
  other_case: {
    seen: 'has a value of the rule in other upper and lower case letters',
    advice: 'Write the value in the rule exactly as the provider sends it.',
  },
  alike: {
    seen: 'has a value that differs from one of the rule only in spaces or in a slash',
    advice:
      'Write the value in the rule exactly as the provider sends it. Keycloak sends a slash before a group if “Full group path” is on.',
  },
  joined: {
    seen: 'is one text, of which a value of the rule is only a part',
    advice: 'Let the provider send a list with one value for each entry.',
  },
  other_form: {
    seen: 'has a form that the rule cannot use: an address is one text, other values are texts or lists of texts',
    advice:
      'Name a member of it by a JSON Pointer, such as /realm_access/roles, or let the provider send a list of texts.',
  },
  verification_absent: {
    seen: 'has an address of the rule, but without email_verified',
    advice: UNVERIFIED,
  },
  verification_false: {
    seen: 'has an address of the rule, but email_verified is not true',
    advice: UNVERIFIED,
  },
  verification_no_boolean: {
    seen: 'has an address of the rule, but email_verified is a text or a number, not true',
    advice: 'Let the provider send email_verified as a boolean.',
  },
} as const satisfies Record<string, Words>;

export const OBSERVATIONS = Object.keys(WORDS) as readonly ClaimObservation['seen'][];

/** Returns part of a sentence, such as “the claim “groups” is absent …”. */
export function observationWords({ claim, seen, elsewhere }: ClaimObservation): string {
  const words = `the claim “${claim}” ${WORDS[seen].seen}`;
  return elsewhere ? `${words}; “${elsewhere.at}” ${ELSEWHERE[elsewhere.by]}` : words;
}

const ELSEWHERE = {
  value: 'has a value of the rule',
  name: 'has this name in another place',
  case: 'has this name in other upper and lower case letters',
} as const;

export function observationAdvice({ seen, elsewhere }: ClaimObservation): string {
  return elsewhere
    ? `If “${elsewhere.at}” is the claim that you mean, and the provider and not the user decides its value, write this name in the rule.`
    : WORDS[seen].advice;
}
