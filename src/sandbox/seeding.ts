/** Adds the entries of a seed file to the sandbox. */
import { createHash } from 'node:crypto';
import type { Account, Accounts } from './accounts.ts';
import type { ApiTokens } from './api-tokens.ts';
import type { SandboxClient } from './clients.ts';
import type { Seed } from './seed.ts';
import type { Threads } from './threads.ts';

export function appsOf(seed: Seed | undefined): SandboxClient[] {
  return (seed?.apps ?? []).map(({ callbackUrls, postLogoutUrls, ...app }) => ({
    ...withoutUndefined(app),
    redirectUris: callbackUrls,
    ...(postLogoutUrls ? { postLogoutRedirectUris: postLogoutUrls } : {}),
  }));
}

export function addSeedTokens(seed: Seed | undefined, accounts: Accounts, apiTokens: ApiTokens): void {
  for (const { user, expiresAt, ...token } of seed?.tokens ?? []) {
    const accountId = accountOf(accounts, user).id;
    apiTokens.create({ ...token, accountId, expiresAtMs: expiresAt, createdBy: 'the seed file' });
  }
}

export function addSeedThreads(seed: Seed | undefined, accounts: Accounts, threads: Threads): void {
  for (const [index, seedThread] of (seed?.threads ?? []).entries()) {
    const { id, author, title, html, sharedWith = [], createdAt, updatedAt, current } = seedThread;
    const thread = threads.add({
      id: id ?? stableId(`${index} ${author} ${title}`),
      title,
      content: html,
      author: accountOf(accounts, author),
      sharedWith: sharedWith.map((login) => accountOf(accounts, login)),
      createdAtMs: createdAt,
      updatedAtMs: updatedAt,
    });
    if (current) threads.makeCurrent(thread);
  }
}

/** Returns an id that is the same at every start, so that links stay valid. */
function stableId(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 12);
}

/** Returns the account, which exists: `readSeed` has checked that. */
function accountOf(accounts: Accounts, login: string): Account {
  const account = accounts.byLogin(login);
  if (account === undefined) throw new Error(`The seed names the unknown user ${login}.`);
  return account;
}

type Defined<T> = { [K in keyof T]: Exclude<T[K], undefined> };

function withoutUndefined<T extends object>(from: T): Defined<T> {
  return Object.fromEntries(Object.entries(from).filter(([, value]) => value !== undefined)) as Defined<T>;
}
