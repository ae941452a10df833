/** Owns what the account page shows, put together from the account, its use and what has just happened. */
import type { Notice, PageFrame } from '../http/page-data.ts';
import type { Account } from './accounts.ts';
import { type Month, monthOf } from './month.ts';
import { FREE_PLAN, type Plan } from './plans.ts';

/** Requests of this month. Numbers for people are texts, such as "10,000". */
export interface UsageMeter {
  plan: string;
  used: number;
  limit: number;
  usedText: string;
  limitText: string;
  /** ISO 8601. */
  resetsAt: string;
}

export interface KeyView {
  id: string;
  name: string;
  hint: string;
  createdAt: string;
  /** One to a line. */
  networks: string;
}

/** What was wrong with a form, beside the field that has to change; what was typed stays. */
export interface FormFault {
  /** `new`, or the id of a key. */
  form: string;
  field: 'name' | 'networks';
  text: string;
  name?: string | undefined;
  networks: string;
}

export interface BinAccountPage {
  page: PageFrame;
  baseUrl: string;
  address: string;
  free: UsageMeter;
  /** Left out where nobody can register here. */
  signIn?: { name: string } | undefined;
  plans: readonly { name: string; title: string; limitText: string; state: 'current' | 'asked' | 'open' }[];
  account?:
    | { id: string; plan?: UsageMeter | undefined; asked?: string | undefined; keys: readonly KeyView[] }
    | undefined;
  /** Only on the page that answers its making. */
  madeKey?: { name: string; key: string } | undefined;
  fault?: FormFault | undefined;
  notice?: Notice | undefined;
}

declare module '../http/page-data.ts' {
  interface AdminPageData {
    'bin-service/account': BinAccountPage;
  }
}

export function meterOf(plan: Plan, used: number, month: Month): UsageMeter {
  const counted = Math.min(used, plan.monthlyRequests);
  return {
    plan: titleOf(plan.name),
    used: counted,
    limit: plan.monthlyRequests,
    usedText: inDigits(counted),
    limitText: inDigits(plan.monthlyRequests),
    resetsAt: new Date(month.end).toISOString(),
  };
}

/** @param parts `used`: requests of this month, of the visitor's address and of the account */
export function accountPage(parts: {
  page: PageFrame;
  baseUrl: string;
  address: string;
  freeMonthlyRequests: number;
  plans: readonly Plan[];
  signIn: { name: string } | undefined;
  account: Account | undefined;
  used: { free: number; account: number };
  now: number;
  fresh: Pick<BinAccountPage, 'madeKey' | 'fault' | 'notice'>;
}): BinAccountPage {
  const { account, used, plans, page, baseUrl, address, signIn, fresh } = parts;
  const month = monthOf(parts.now);
  const free = { name: FREE_PLAN, monthlyRequests: parts.freeMonthlyRequests };
  const stateOf = ({ name }: Plan) => {
    if (account?.requested?.name === name) return 'asked';
    return account?.plan?.name === name ? 'current' : 'open';
  };
  return {
    ...{ page, baseUrl, address, signIn, ...fresh },
    free: meterOf(free, used.free, month),
    plans: plans.map((plan) => ({
      name: plan.name,
      title: titleOf(plan.name),
      limitText: inDigits(plan.monthlyRequests),
      state: stateOf(plan),
    })),
    account: account && {
      id: account.id,
      plan: account.plan && meterOf(account.plan, used.account, month),
      asked: account.requested && titleOf(account.requested.name),
      keys: account.keys.map(({ id, name, hint, createdAt, networks }) => ({
        ...{ id, name, hint, networks: networks.join('\n') },
        createdAt: new Date(createdAt).toISOString(),
      })),
    },
  };
}

function titleOf(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1);
}

function inDigits(count: number): string {
  return count.toLocaleString('en-GB');
}
