/** The home page of the identity provider: accounts with their current codes, and links. */
import type { RequestListener } from 'node:http';
import type { RequestHandler } from 'express';
import type { Account, Accounts } from './accounts.ts';
import type { Pages } from './pages.ts';
import type { CurrentCode, SecondFactor } from './second-factor.ts';

interface Parts {
  accounts: Accounts;
  secondFactor: SecondFactor;
  pages: Pages;
  issuer: string;
  platformUrl: string;
  tour: RequestListener | undefined;
}

/** An account as every browser sees it. No account of the sandbox is secret, because none is real. */
export interface ShownAccount extends Account {
  readonly ownPassword: boolean;
  readonly currentCode: CurrentCode | undefined;
}

export function shownUsers({ accounts, secondFactor }: Pick<Parts, 'accounts' | 'secondFactor'>): ShownAccount[] {
  return accounts.all
    .filter(({ kind, disabled }) => kind === 'person' && !disabled)
    .map((account) => ({
      ...account,
      ownPassword: accounts.hasOwnPassword(account.id),
      currentCode: secondFactor.currentCode(account),
    }));
}

export function createHome({ accounts, secondFactor, pages, issuer, platformUrl, tour }: Parts): RequestHandler {
  return (_req, res) => {
    const users = shownUsers({ accounts, secondFactor });
    const { password } = accounts;
    pages.send(res, 'home', {
      title: 'Identity provider',
      issuer,
      platformUrl,
      users,
      password,
      hasTour: tour !== undefined,
    });
  };
}
