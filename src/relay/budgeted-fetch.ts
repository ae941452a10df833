/** Owns the meeting of platform calls with the provider's budget: no call leaves that it does not cover, and every answer is heeded. */
import { AppError } from '../errors.ts';
import type { AuthorizedFetch } from '../grants/authorized-fetch.ts';
import type { BudgetedCall, Caller, ProviderBudget } from './provider-budget.ts';

/** Where the budget is spent, `get` rejects with the AppError `upstream_rate_limited`, and nothing has left. */
export function budgetedFetch(inner: AuthorizedFetch, budget: ProviderBudget, caller: Caller): AuthorizedFetch {
  return {
    async get(request) {
      const call: BudgetedCall = { app: request.app, whom: request.userId, caller };
      const answer = await inner.get({ ...request, beforeSending: () => cover(budget, call) });
      if (answer.kind === 'answer') budget.heed(call, answer.response.headers);
      return answer;
    },
  };
}

function cover(budget: ProviderBudget, call: BudgetedCall): Promise<void> | undefined {
  const taken = budget.take(call);
  if (taken instanceof Promise) return taken.then(refuseFor);
  refuseFor(taken);
  return undefined;
}

function refuseFor(retryAfterSeconds: number | undefined): void {
  if (retryAfterSeconds === undefined) return;
  throw new AppError('upstream_rate_limited', {
    detail: 'What the platform allows for now is used up. Wait as long as Retry-After says.',
    retryAfterSeconds,
    headers: { 'Proxy-Status': 'gatehouse; error=http_request_denied' },
  });
}
