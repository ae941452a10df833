/** Owns the plans: who may ask how often in a month. Pure. */

export interface Plan {
  /** 1 to 40 of a-z, 0-9 and "-"; shown with a capital. */
  name: string;
  monthlyRequests: number;
}

/** For requests without a key, counted by address. */
export const FREE_PLAN = 'free';

const FORM = /^([a-z0-9-]{1,40}):([1-9]\d{0,11})$/;

/** Reads `starter:100000,business:1000000` (setting `PLANS`), in the order in which pages offer them. */
export function parsePlans(entries: readonly string[]): { plans: Plan[]; faults: string[] } {
  const plans: Plan[] = [];
  const faults: string[] = [];
  for (const entry of entries) {
    const [, name, requests] = FORM.exec(entry) ?? [];
    if (name === undefined) {
      faults.push(`PLANS: "${entry}" is not NAME:REQUESTS, such as starter:100000.`);
    } else if (name === FREE_PLAN) {
      faults.push('PLANS: "free" is the plan of those without a key: set it with FREE_MONTHLY_REQUESTS.');
    } else if (plans.some((plan) => plan.name === name)) {
      faults.push(`PLANS: "${name}" is there twice.`);
    } else {
      plans.push({ name, monthlyRequests: Number(requests) });
    }
  }
  return { plans, faults };
}
