/** Plans: how many requests an account may make in a month and in a minute, and where it gets support. */

export interface Plan {
  /** 1 to 40 characters of a-z, 0-9 and "-". Pages show the name with a capital. */
  name: string;
  monthlyRequests: number;
  /** Absent if there is no limit. */
  requestsPerMinute?: number;
  /** An e-mail address or a URL that replaces SUPPORT_CONTACT. */
  support?: string;
}

/** The limits of requests without a key, counted by address. */
export type FreeTier = Pick<Plan, 'monthlyRequests' | 'requestsPerMinute'>;

export const FREE_PLAN = 'free';
/** The name of the quota per minute in `RateLimit`. No plan may have this name. */
export const MINUTE = 'minute';

const FORMAT = /^([a-z0-9-]{1,40}):([1-9]\d{0,11})(?::([1-9]\d{0,8}))?(?::(https:\/\/\S+|[^\s:@]+@[^\s:@]+))?$/;

/**
 * Parses the entries of `PLANS`, in the order in which pages offer them. Each fault follows the name of the setting.
 */
export function parsePlans(entries: readonly string[]): { plans: Plan[]; faults: string[] } {
  const plans: Plan[] = [];
  const faults: string[] = [];
  for (const entry of entries) {
    const [, name, monthlyRequests, requestsPerMinute, support] = FORMAT.exec(entry) ?? [];
    if (name === undefined) {
      faults.push(
        `: "${entry}" is not NAME:REQUESTS[:PER_MINUTE[:SUPPORT]], such as starter:100000:60000:help@example.com.`,
      );
    } else if (name === FREE_PLAN) {
      faults.push(': "free" is reserved for requests without a key: set FREE_MONTHLY_REQUESTS instead.');
    } else if (name === MINUTE) {
      faults.push(': "minute" is reserved for the limit of requests a minute: choose another name.');
    } else if (plans.some((plan) => plan.name === name)) {
      faults.push(`: "${name}" is listed twice.`);
    } else {
      plans.push({
        name,
        monthlyRequests: Number(monthlyRequests),
        ...(requestsPerMinute !== undefined && { requestsPerMinute: Number(requestsPerMinute) }),
        ...(support !== undefined && { support }),
      });
    }
  }
  return { plans, faults };
}
