/** Creates the calls to platforms for browsers and for services, all within the provider's budget. */
import type { Store } from '../../shared/storage/store.ts';
import type { AuthorizedFetch } from '../grants/authorized-fetch.ts';
import type { Grants } from '../grants/grants.ts';
import { createCallWindows } from './call-windows.ts';
import { CALL_LIMITS, createPlatformCalls, type PlatformCalls } from './platform-call.ts';
import { type BudgetedCall, createProviderBudget, type ProviderBudget } from './provider-budget.ts';

export interface Platform {
  /** Calls with the token of the session's user. */
  forBrowsers: PlatformCalls;

  /** Calls with the token of a user. */
  forServices: PlatformCalls;

  /** Calls with the token that `fetch` sends. */
  forServicesWith(fetch: AuthorizedFetch): PlatformCalls;

  /** Charges the budget with one call for a service. Returns the whole seconds to wait first, if any. */
  charge(app: BudgetedCall['app'], ownerId: string): Promise<number | undefined>;

  /** Charges the budget with a check of a connection. Returns the whole seconds to wait first, if any. */
  chargeCheck: ProviderBudget['chargeCheck'];

  close(): Promise<void>;
}

/** @throws AppError `storage_unavailable` */
export async function createPlatform(parts: {
  storage: { store: Store };
  grants: Pick<Grants, 'fetch'>;
  publicHref: string;
  clock: () => number;
}): Promise<Platform> {
  const { storage, grants, publicHref, clock } = parts;
  const { store } = storage;
  const budget = await createProviderBudget({ store, windows: createCallWindows({ store, clock }), clock });
  const common = { budget, publicHref, limits: CALL_LIMITS, clock };
  const ofUsers = { ...common, authorizedFetch: grants.fetch, canConsent: true };
  return {
    forBrowsers: createPlatformCalls({ ...ofUsers, caller: 'browser' }),
    forServices: createPlatformCalls({ ...ofUsers, caller: 'service' }),
    forServicesWith: (authorizedFetch) =>
      createPlatformCalls({ ...common, authorizedFetch, canConsent: false, caller: 'service' }),
    charge: async (app, ownerId) => budget.charge({ app, ownerId, caller: 'service' }),
    chargeCheck: budget.chargeCheck,
    close: budget.close,
  };
}
