/** The account page: its forms, and its data from the account, its usage and the result of the last action. */
import { z } from 'zod';
import { networkFault } from '../shared/config/networks.ts';
import { type FormView, words } from '../shared/pages/form.ts';
import type { NewSecret, Notice, PageFrame } from '../shared/pages/page-data.ts';
import { capitalised, cutText } from '../shared/text.ts';
import { isoTime } from '../shared/time.ts';
import type { Account } from './accounts.ts';
import { type Month, monthOf } from './month.ts';
import { FREE_PLAN, type FreeTier, type Plan } from './plans.ts';

const MAX_NETWORKS = 50;

const network = z.string().superRefine((entry, context) => {
  const fault = networkFault(entry);
  if (fault) context.addIssue({ code: 'custom', message: `“${cutText(entry, 50)}” ${fault}` });
});
const networks = words
  .transform((entries) => [...new Set(entries)])
  .pipe(z.array(network).max(MAX_NETWORKS, `Enter at most ${MAX_NETWORKS} addresses.`));

/** The form for the addresses from which a key may be used. */
export const addressesForm = z.object({ networks });
/** The form for a new API key. */
export const keyForm = z.object({
  name: z
    .string()
    .trim()
    .regex(/^\P{C}{1,60}$/u, 'Enter a name of 1 to 60 characters.'),
  networks,
});

/** The requests of this month. The members `…Text` are formatted, such as "10,000". */
export interface UsageMeter {
  plan: string;
  used: number;
  limit: number;
  usedText: string;
  limitText: string;
  /** The limit of a minute, such as "60,000 a minute"; absent without such a limit. */
  rateText?: string | undefined;
  /** The start of the next month (ISO 8601). */
  resetsAt: string;
}

export interface KeyView {
  id: string;
  name: string;
  hint: string;
  createdAt: string;
  /** One address or CIDR on each line. */
  networks: string;
}

export interface BinAccountPage {
  page: PageFrame;
  baseUrl: string;
  address: string;
  free: UsageMeter;
  /** The provider for registration; absent if there is only the free tier. */
  signIn?: { name: string } | undefined;
  plans: readonly {
    name: string;
    title: string;
    limitText: string;
    rateText?: string | undefined;
    support?: string | undefined;
    state: 'current' | 'requested' | 'available';
  }[];
  /** Seconds after which the demo confirms a request for a plan; absent otherwise. */
  confirmSeconds?: number | undefined;
  account?:
    | {
        id: string;
        plan?: UsageMeter | undefined;
        requested?: { title: string; order: string } | undefined;
        keys: readonly KeyView[];
      }
    | undefined;
  newSecret?: NewSecret | undefined;
  /** The form for a new key. */
  form: FormView<typeof keyForm>;
  /** The refused form for the addresses of this key. */
  addresses?: (FormView<typeof addressesForm> & { key: string }) | undefined;
  notice?: Notice | undefined;
}

declare module '../shared/pages/page-data.ts' {
  interface PageData {
    account: BinAccountPage;
  }
}

function meterOf(plan: Plan, used: number, month: Month): UsageMeter {
  const counted = Math.min(used, plan.monthlyRequests);
  return {
    plan: capitalised(plan.name),
    used: counted,
    limit: plan.monthlyRequests,
    usedText: formatted(counted),
    limitText: formatted(plan.monthlyRequests),
    rateText: rateOf(plan),
    resetsAt: isoTime(month.end),
  };
}

/** @param parts `used`: the requests of this month from the browser's address, and those of the account */
export function accountPage(parts: {
  page: PageFrame;
  baseUrl: string;
  address: string;
  free: FreeTier;
  plans: readonly Plan[];
  signIn: { name: string } | undefined;
  account: Account | undefined;
  used: { free: number; account: number };
  confirmSeconds: number | undefined;
  now: number;
  fresh: Partial<Pick<BinAccountPage, 'newSecret' | 'form' | 'addresses' | 'notice'>>;
}): BinAccountPage {
  const { account, used, plans, baseUrl, address, signIn, confirmSeconds, fresh } = parts;
  const page = { ...parts.page, supportContact: account?.plan?.support ?? parts.page.supportContact };
  const month = monthOf(parts.now);
  const free: Plan = { ...parts.free, name: FREE_PLAN };
  const stateOf = ({ name }: Plan) => {
    if (account?.requested?.name === name) return 'requested';
    return account?.plan?.name === name ? 'current' : 'available';
  };
  return {
    page,
    baseUrl,
    address,
    signIn,
    confirmSeconds,
    form: NEW_KEY,
    ...fresh,
    free: meterOf(free, used.free, month),
    plans: plans.map((plan) => ({
      name: plan.name,
      title: capitalised(plan.name),
      limitText: formatted(plan.monthlyRequests),
      rateText: rateOf(plan),
      support: plan.support,
      state: stateOf(plan),
    })),
    account: account && {
      id: account.id,
      plan: account.plan && meterOf(account.plan, used.account, month),
      requested: account.requested && { title: capitalised(account.requested.name), order: account.requested.order },
      keys: account.keys.map(({ id, name, hint, createdAt, networks }) => ({
        id,
        name,
        hint,
        networks: networks.join('\n'),
        createdAt: isoTime(createdAt),
      })),
    },
  };
}

const NEW_KEY: FormView<typeof keyForm> = { values: { name: '', networks: '' }, faults: [] };

function rateOf({ requestsPerMinute }: Plan): string | undefined {
  return requestsPerMinute === undefined ? undefined : `${formatted(requestsPerMinute)} a minute`;
}

function formatted(count: number): string {
  return count.toLocaleString('en-GB');
}
