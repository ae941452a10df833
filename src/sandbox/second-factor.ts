/** Creates and checks the codes of the second factor. Each code is accepted only once (RFC 6238 section 5.2). */
import type { Account } from './accounts.ts';
import { codeAt, STEP_SECONDS, stepAt } from './totp.ts';

/** The `acr` of a sign-in by password, and of one with a second factor. */
export const PASSWORD_ACR = 'pwd';
export const SECOND_FACTOR_ACR = 'mfa';

export interface CurrentCode {
  code: string;
  validForSeconds: number;
}

export interface SecondFactor {
  /** Returns an unused code; undefined for an account without a second factor. */
  currentCode(account: Account): CurrentCode | undefined;
  /** Returns whether the code is valid, which it is only once. */
  accept(account: Account, code: string): boolean;
}

/**
 * Codes of earlier and later steps are accepted, because clocks differ. Many later steps are accepted, so that several
 * sign-ins within one step find unused codes.
 */
const STEPS_BEHIND = 1;
const STEPS_AHEAD = 20;

export function createSecondFactor({ now }: { now: () => number }): SecondFactor {
  const usedSteps = new Map<string, Set<number>>();

  function unusedSteps(account: Account): number[] {
    const first = stepAt(now()) - STEPS_BEHIND;
    const used = usedSteps.get(account.id);
    for (const step of used ?? []) if (step < first) used?.delete(step);
    const steps = Array.from({ length: STEPS_BEHIND + 1 + STEPS_AHEAD }, (_, index) => first + index);
    return steps.filter((step) => !used?.has(step));
  }

  return {
    currentCode(account) {
      const step = unusedSteps(account).find((candidate) => candidate >= stepAt(now()));
      if (account.totpSecret === undefined || step === undefined) return undefined;
      const endsAtMs = (step + 1) * STEP_SECONDS * 1000;
      return { code: codeAt(account.totpSecret, step), validForSeconds: Math.ceil((endsAtMs - now()) / 1000) };
    },
    accept(account, code) {
      const { totpSecret } = account;
      if (totpSecret === undefined) return false;
      const digits = code.replaceAll(/\s/g, '');
      const step = unusedSteps(account).find((candidate) => codeAt(totpSecret, candidate) === digits);
      if (step === undefined) return false;
      usedSteps.set(account.id, (usedSteps.get(account.id) ?? new Set()).add(step));
      return true;
    },
  };
}
