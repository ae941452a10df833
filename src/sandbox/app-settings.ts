/** Settings of each app: token lifetimes, use of refresh tokens, and requirements of the token endpoint. */
import { z } from 'zod';
import { isAllowedFrom } from '../shared/config/networks.ts';
import type { Account } from './accounts.ts';

/** How used refresh tokens are treated. May be changed while the sandbox runs. */
export interface RefreshTokens {
  /**
   * `rotating`: each is valid once, and a second use ends the grant. `reusable`: always the same token. `grace`:
   * rotating, but a used token stays valid for a while, for clients that lost the response.
   */
  policy: 'rotating' | 'reusable' | 'grace';
  /** With `grace`: how long a used token stays valid, from its first use. */
  graceSeconds: number;
}

const DAY_SECONDS = 24 * 60 * 60;

const seconds = (max: number) =>
  z.int('must be a whole number of seconds').min(1, 'must be 1 or more').max(max, `must be ${max} or less`);

export const appSettingsSchema = z.strictObject({
  accessTokenSeconds: seconds(365 * DAY_SECONDS).optional(),
  /** A refresh token expires if it is not used for this long. */
  refreshIdleSeconds: seconds(365 * DAY_SECONDS).optional(),
  /** A refresh token expires this long after the sign-in, even if it is used. Default: no such limit. */
  refreshMaxSeconds: seconds(365 * DAY_SECONDS).optional(),
  refreshPolicy: z.enum(['rotating', 'reusable', 'grace'], 'must be rotating, reusable or grace').optional(),
  graceSeconds: seconds(DAY_SECONDS).optional(),
  /** The token endpoint delays its response by this time, after the request took effect. */
  tokenDelayMilliseconds: z
    .int('must be a whole number of milliseconds')
    .min(0, 'must be 0 or more')
    .max(60_000, 'must be 60000 or less')
    .optional(),
  /** False imitates a provider whose tokens live as long as the organisation's session. */
  sendExpiresIn: z.boolean().optional(),
  /** Accept the app's tokens only from the networks of their user. */
  restrictTokens: z.boolean().optional(),
  /** Accept authorization requests only with PKCE (RFC 7636). Public clients need it in any case. */
  requirePkce: z.boolean().optional(),
  /** Accept authorization requests only by PAR (RFC 9126). */
  requirePushedRequests: z.boolean().optional(),
  /** Issue only tokens that are bound to the key of a DPoP proof (RFC 9449). */
  requireDpop: z.boolean().optional(),
  /** Require a nonce from the server in DPoP proofs. */
  requireDpopNonce: z.boolean().optional(),
});

/** The settings that are set for an app. */
export type AppChoices = z.infer<typeof appSettingsSchema>;

/** The settings in effect. */
export type AppSettings = Pick<AppChoices, 'refreshMaxSeconds'> & {
  [Name in Exclude<keyof AppChoices, 'refreshMaxSeconds'>]-?: Exclude<AppChoices[Name], undefined>;
};

export const DEFAULT_REFRESH_IDLE_SECONDS = 14 * DAY_SECONDS;

/** Start options that apply to apps without settings of their own. */
export type DefaultSettings = Pick<
  AppSettings,
  'accessTokenSeconds' | 'refreshIdleSeconds' | 'refreshMaxSeconds' | 'tokenDelayMilliseconds'
>;

/**
 * Remaining lifetime of a refresh token that is issued or used now.
 * @param signedInAtSeconds when its first token was issued
 */
export function refreshTokenSeconds(settings: AppSettings, signedInAtSeconds: number, nowSeconds: number): number {
  const { refreshIdleSeconds, refreshMaxSeconds = Number.POSITIVE_INFINITY } = settings;
  return Math.max(1, Math.min(refreshIdleSeconds, signedInAtSeconds + refreshMaxSeconds - nowSeconds));
}

/** The settings in effect for an app. Its own settings override those of the sandbox. */
export function settingsFor(
  choices: AppChoices | undefined,
  defaults: DefaultSettings,
  refreshTokens: RefreshTokens,
): AppSettings {
  const chosen = Object.fromEntries(Object.entries(choices ?? {}).filter(([, value]) => value !== undefined));
  return {
    ...defaults,
    refreshPolicy: refreshTokens.policy,
    graceSeconds: refreshTokens.graceSeconds,
    sendExpiresIn: true,
    restrictTokens: false,
    requirePkce: false,
    requirePushedRequests: false,
    requireDpop: false,
    requireDpopNonce: false,
    ...chosen,
  };
}

/**
 * Whether a token may be used from an address. The user's networks apply if the app or the account restricts tokens.
 * @param app undefined for an API token
 */
export function isTokenAllowedFrom(
  address: string | undefined,
  account: Account,
  app: Pick<AppSettings, 'restrictTokens'> | undefined,
): boolean {
  const isRestricted = account.restrictTokens || app?.restrictTokens === true;
  return !isRestricted || isAllowedFrom(address ?? '', account.networks);
}
