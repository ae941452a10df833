/** Owns the second factor: which code an account may use now, and that each is used once (RFC 6238 section 5.2). */
import type { Account } from './accounts.ts';
import { codeAt, STEP_SECONDS, stepAt } from './totp.ts';

/** The `acr` of a sign-in: by password alone, or with the second factor too. */
export const PASSWORD_ACR = 'pwd';
export const SECOND_FACTOR_ACR = 'mfa';

export interface CurrentCode {
  code: string;
  /** From now on. */
  validForSeconds: number;
}

export interface SecondFactor {
  /** A code that was not used yet; undefined for an account without a second factor. */
  currentCode(account: Account): CurrentCode | undefined;
  /** True once for each code. */
  accept(account: Account, code: string): boolean;
}

/** Clocks differ by a step; ahead there is more room, so that several sign-ins within one step each find an unused code. */
const STEPS_BEHIND = 1;
const STEPS_AHEAD = 20;

export function createSecondFactor({ now }: { now: () => number }): SecondFactor {
  const usedSteps = new Map<string, Set<number>>();

  function freeSteps(account: Account): number[] {
    const first = stepAt(now()) - STEPS_BEHIND;
    const used = usedSteps.get(account.id);
    for (const step of used ?? []) if (step < first) used?.delete(step);
    const all = Array.from({ length: STEPS_BEHIND + 1 + STEPS_AHEAD }, (_, index) => first + index);
    return all.filter((step) => !used?.has(step));
  }

  return {
    currentCode(account) {
      const step = freeSteps(account).find((one) => one >= stepAt(now()));
      if (account.totpSecret === undefined || step === undefined) return undefined;
      const endsAtMs = (step + 1) * STEP_SECONDS * 1000;
      return { code: codeAt(account.totpSecret, step), validForSeconds: Math.ceil((endsAtMs - now()) / 1000) };
    },
    accept(account, code) {
      const { totpSecret } = account;
      if (totpSecret === undefined) return false;
      const typed = code.replaceAll(/\s/g, '');
      const step = freeSteps(account).find((one) => codeAt(totpSecret, one) === typed);
      if (step === undefined) return false;
      usedSteps.set(account.id, (usedSteps.get(account.id) ?? new Set()).add(step));
      return true;
    },
  };
}
