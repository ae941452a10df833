/** Owns when the identity provider asks a person to sign in although there is a session: step-up, addresses, ended accounts. */
import { base, Check } from 'oidc-provider/lib/helpers/interaction_policy/index.js';
import type { AuthorizationContext } from 'oidc-provider/lib/provider.js';
import type { Account, Accounts } from './accounts.ts';
import { isInside } from './networks.ts';
import { SECOND_FACTOR_ACR } from './second-factor.ts';

export type SecondFactorDemand = 'on_request' | 'always';

/** The reason that leads to the page for the code alone. */
export const STEP_UP_REASON = 'second_factor';

/** Whether this account must show its second factor here. One that has none signs in without, and its `acr` says so. */
export function needsSecondFactor(
  account: Account,
  acrValues: string | undefined,
  demand: SecondFactorDemand,
): boolean {
  if (account.totpSecret === undefined) return false;
  return demand === 'always' || (acrValues ?? '').split(' ').includes(SECOND_FACTOR_ACR);
}

export function createLoginPolicy({ accounts, demand }: { accounts: Accounts; demand: SecondFactorDemand }) {
  const accountOf = ({ oidc }: AuthorizationContext) => accounts.byId(oidc.session?.accountId ?? '');
  const policy = base();
  const { checks } = policy.get('login');

  checks.add(
    new Check(STEP_UP_REASON, 'the second factor is required', 'interaction_required', (ctx) => {
      const account = accountOf(ctx);
      if (account === undefined || ctx.oidc.session?.acr === SECOND_FACTOR_ACR) return Check.NO_NEED_TO_PROMPT;
      return needsSecondFactor(account, ctx.oidc.params.acr_values, demand);
    }),
  );
  checks.add(
    new Check('account', 'the account cannot be used from here', 'login_required', (ctx) => {
      if (ctx.oidc.session?.accountId === undefined) return Check.NO_NEED_TO_PROMPT;
      const account = accountOf(ctx);
      return (
        account === undefined || account.disabled || !isInside(account.networks, ctx.req.socket.remoteAddress ?? '')
      );
    }),
  );
  return policy;
}
