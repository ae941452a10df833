/** Owns the first page of the sandbox: what it is, who can sign in and with which code, and where everything is. */
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
}

/** What anyone may know of an account here: nothing of the sandbox is a secret, for nothing in it is real. */
export interface ShownAccount extends Account {
  readonly ownPassword: boolean;
  readonly currentCode: CurrentCode | undefined;
}

export function shownPeople({ accounts, secondFactor }: Pick<Parts, 'accounts' | 'secondFactor'>): ShownAccount[] {
  return accounts.all
    .filter(({ kind, disabled }) => kind === 'person' && !disabled)
    .map((account) => ({
      ...account,
      ownPassword: accounts.hasOwnPassword(account.id),
      currentCode: secondFactor.currentCode(account),
    }));
}

export function createHome({ accounts, secondFactor, pages, issuer, platformUrl }: Parts): RequestHandler {
  return (_req, res) => {
    const people = shownPeople({ accounts, secondFactor });
    const { password } = accounts;
    pages.send(res, 'home', { title: 'Identity provider', issuer, platformUrl, people, password });
  };
}
