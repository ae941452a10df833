/** Wraps calls to the platform: each is charged to the provider's budget first, and each response updates it. */
import { AppError } from '../../shared/errors.ts';
import type { AuthorizedFetch } from '../grants/authorized-fetch.ts';
import type { BudgetedCall, Caller, ProviderBudget } from './provider-budget.ts';

/** Once the budget is spent, `get` rejects with the AppError `upstream_rate_limited` and sends nothing. */
export function budgetedFetch(inner: AuthorizedFetch, budget: ProviderBudget, caller: Caller): AuthorizedFetch {
  return {
    async get(request) {
      const call: BudgetedCall = { app: request.app, ownerId: request.userId, caller };
      const result = await inner.get({ ...request, beforeSending: () => charge(budget, call) });
      if (result.kind === 'response') budget.update(call, result.response.headers);
      return result;
    },
  };
}

function charge(budget: ProviderBudget, call: BudgetedCall): Promise<void> | undefined {
  const wait = budget.take(call);
  if (wait instanceof Promise) return wait.then(assertNoWait);
  assertNoWait(wait);
  return undefined;
}

function assertNoWait(retryAfterSeconds: number | undefined): void {
  if (retryAfterSeconds === undefined) return;
  throw new AppError('upstream_rate_limited', {
    detail: 'The platform’s rate limit is used up for now. Wait as long as Retry-After says.',
    retryAfterSeconds,
    headers: { 'Proxy-Status': 'gatehouse; error=http_request_denied' },
  });
}
