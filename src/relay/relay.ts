/** Owns how the parts of the relay are joined: who may call, for whom, within which budget, and what is kept of it. */
import type { AuditNotes } from '../audit/notes.ts';
import type { AppStore } from '../connected-apps/app-store.ts';
import type { IdTokens } from '../connected-apps/id-token.ts';
import type { OwnKeys } from '../connected-apps/own-keys.ts';
import type { AuthorizedFetch } from '../grants/authorized-fetch.ts';
import type { GrantStore } from '../grants/grant-store.ts';
import type { NarrowedTokens } from '../grants/narrowed-token.ts';
import type { TokenVault } from '../grants/token-vault.ts';
import type { ClientAddress } from '../http/client-address.ts';
import type { RateLimits } from '../http/rate-limit.ts';
import type { Outbound } from '../outbound/outbound.ts';
import type { Sealer } from '../storage/sealed.ts';
import type { Store } from '../storage/store.ts';
import { createThreadCall, type ThreadCall, type ThreadLimits } from '../threads/thread-call.ts';
import { budgetedFetch } from './budgeted-fetch.ts';
import { createCallWindows } from './call-windows.ts';
import { createRelayGate, type RelayGate } from './gate.ts';
import { type Caller, createProviderBudget } from './provider-budget.ts';
import { createRelayTokens, type RelayTokens } from './relay-token.ts';
import { createServiceAccounts, type ServiceAccounts, serviceAccountFetch } from './service-account.ts';
import { createTokenExchange, type TokenExchange } from './token-exchange.ts';
import { createUserAssertions, type UserAssertions } from './user-assertion.ts';
import { createRelayUses, type RelayUses } from './uses.ts';

export interface Relay {
  tokens: RelayTokens;
  accounts: ServiceAccounts;
  assertions: UserAssertions;
  uses: RelayUses;
  gate: RelayGate;
  exchange: TokenExchange;
  /** The one way a thread is fetched, for each kind of caller; all within one budget. */
  threads: { browser: ThreadCall; user: ThreadCall; serviceAccount: ThreadCall };
  close(): Promise<void>;
}

export interface RelayParts {
  store: Store;
  sealer: Sealer;
  outbound: Outbound;
  audit: Pick<AuditNotes, 'note'>;
  apps: AppStore;
  ownKeys: OwnKeys;
  idTokens: IdTokens;
  userIdOf: (issuer: string, subject: string) => string;
  /** False for a user whom an administrator has disabled. */
  mayBeServed: (userId: string) => Promise<boolean>;
  authorizedFetch: AuthorizedFetch;
  vault: TokenVault;
  narrowed: NarrowedTokens;
  grants: GrantStore;
  limits: RateLimits;
  addressOf: ClientAddress;
  /** For the overview. */
  countCall: (outcome: 'answered' | 'failed' | 'refused') => void;
  threadLimits: ThreadLimits;
  publicHref: string;
  clock: () => number;
}

export async function createRelay(parts: RelayParts): Promise<Relay> {
  const { store, sealer, outbound, audit, authorizedFetch, publicHref, clock } = parts;
  const tokens = await createRelayTokens({ store, clock });
  const budget = await createProviderBudget({ store, windows: createCallWindows({ store, clock }), clock });
  const accounts = createServiceAccounts({ store, sealer, clock });
  const assertions = createUserAssertions({ ownKeys: parts.ownKeys, publicHref, clock });
  const kept = createRelayUses({ store, audit, clock });
  const uses: RelayUses = {
    ...kept,
    note(use) {
      kept.note(use);
      parts.countCall(use.result === 'answered' || use.result === 'failed' ? use.result : 'refused');
    },
  };
  const gate = createRelayGate({ ...parts, tokens, assertions, uses });

  const threadsWith = (fetch: AuthorizedFetch, caller: Caller): ThreadCall =>
    createThreadCall({
      authorizedFetch: budgetedFetch(fetch, budget, caller),
      publicHref,
      limits: parts.threadLimits,
      clock,
      onLimited: ({ app, userId: whom }, { seconds, stated }) => budget.refused({ app, whom, caller }, seconds, stated),
    });

  return {
    tokens,
    accounts,
    assertions,
    uses,
    gate,
    exchange: createTokenExchange({ ...parts, gate, assertions }),
    threads: {
      browser: threadsWith(authorizedFetch, 'browser'),
      user: threadsWith(authorizedFetch, 'service'),
      serviceAccount: threadsWith(serviceAccountFetch(accounts, outbound), 'service'),
    },
    async close() {
      await uses.close();
      await Promise.all([tokens.close(), budget.close()]);
    },
  };
}
