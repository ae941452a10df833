/** Decides when a user with a session must sign in again: for step-up, other networks, and disabled accounts. */
import { base, Check, Prompt } from 'oidc-provider/lib/helpers/interaction_policy/index.js';
import type { AuthorizationContext } from 'oidc-provider/lib/provider.js';
import { isAllowedFrom } from '../shared/config/networks.ts';
import type { Account, Accounts } from './accounts.ts';
import { SECOND_FACTOR_ACR } from './second-factor.ts';

export type SecondFactorDemand = 'on_request' | 'always';

const SELECT_ACCOUNT = 'select_account';
/** The values of `prompt` in discovery. */
export const PROMPTS = ['none', 'login', 'consent', SELECT_ACCOUNT];

/** The reason of a prompt that asks only for a code. */
export const STEP_UP_REASON = 'second_factor';

/** Returns whether a sign-in needs a code. An account without a second factor signs in without one, as `acr` states. */
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
  // The user chooses an account on the sign-in page, which asks for its password.
  const selectAccount = new Prompt({ name: SELECT_ACCOUNT, requestable: true });
  selectAccount.checks.clear();
  policy.add(selectAccount);
  checks.add(
    new Check(SELECT_ACCOUNT, 'the user must choose an account', 'account_selection_required', ({ oidc }) => {
      return oidc.prompts.has(SELECT_ACCOUNT) && oidc.result?.login === undefined;
    }),
  );

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
        account === undefined ||
        account.disabled ||
        !isAllowedFrom(ctx.req.socket.remoteAddress ?? '', account.networks)
      );
    }),
  );
  return policy;
}
