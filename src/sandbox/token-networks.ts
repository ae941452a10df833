/** Whether a token may be used from an address: its user's networks count if the app or the account says so. */
import { isAllowedFrom } from '../shared/config/networks.ts';
import type { Account } from './accounts.ts';
import type { AppSettings } from './app-settings.ts';

/** @param app undefined for an API token */
export function isTokenAllowedFrom(
  address: string | undefined,
  account: Account,
  app: Pick<AppSettings, 'restrictTokens'> | undefined,
): boolean {
  const isRestricted = account.restrictTokens || app?.restrictTokens === true;
  return !isRestricted || isAllowedFrom(address ?? '', account.networks);
}
