/** The settings of each app: token lifetimes, refresh policy, and what its requests must have. */
import { z } from 'zod';
import { isAllowedFrom } from '../shared/config/networks.ts';
import type { Account } from './accounts.ts';

/** Says how long a used refresh token stays valid. It may be changed while the sandbox runs. */
export interface RefreshPolicy {
  /**
   * `rotating`: each token is valid once, and a second use ends the grant. `reusable`: the token stays the same.
   * `grace`: like `rotating`, but a used token stays valid for a while, for clients that lost the response.
   */
  policy: 'rotating' | 'reusable' | 'grace';
  /** With `grace`, a used token stays valid for this long after its first use. */
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
  /** False imitates a provider whose tokens are valid as long as the session, and which states no lifetime. */
  sendExpiresIn: z.boolean().optional(),
  /** Accept the app's tokens only from the networks of their account. */
  restrictTokens: z.boolean().optional(),
  /** API calls need a sign-in with the second factor (RFC 9470). */
  demandSecondFactor: z.boolean().optional(),
  /** API calls need a sign-in that is at most this old (RFC 9470). */
  demandMaxAgeSeconds: seconds(365 * DAY_SECONDS).optional(),
  /** Accept authorization requests only with PKCE (RFC 7636). Public clients need it in any case. */
  requirePkce: z.boolean().optional(),
  /** Accept authorization requests only by PAR (RFC 9126). */
  requirePushedRequests: z.boolean().optional(),
  /** Issue only tokens that are bound to the key of a DPoP proof (RFC 9449). */
  requireDpop: z.boolean().optional(),
  /** Require a nonce from the server in DPoP proofs. */
  requireDpopNonce: z.boolean().optional(),
});

/** The settings that an app has instead of the sandbox's. */
export type AppOverrides = z.infer<typeof appSettingsSchema>;

/** The settings in effect. */
export type AppSettings = Pick<AppOverrides, WithoutDefault> & {
  [Name in Exclude<keyof AppOverrides, WithoutDefault>]-?: Exclude<AppOverrides[Name], undefined>;
};
type WithoutDefault = 'refreshMaxSeconds' | 'demandMaxAgeSeconds';

export const DEFAULT_REFRESH_IDLE_SECONDS = 14 * DAY_SECONDS;

/** The settings from the start options, for apps that do not override them. */
export type DefaultSettings = Pick<
  AppSettings,
  'accessTokenSeconds' | 'refreshIdleSeconds' | 'refreshMaxSeconds' | 'tokenDelayMilliseconds'
>;

/**
 * Returns the remaining lifetime of a refresh token that is issued or used now.
 * @param signedInAtSeconds time of the sign-in, which issued the first refresh token of this grant
 */
export function refreshTokenSeconds(settings: AppSettings, signedInAtSeconds: number, nowSeconds: number): number {
  const { refreshIdleSeconds, refreshMaxSeconds = Number.POSITIVE_INFINITY } = settings;
  return Math.max(1, Math.min(refreshIdleSeconds, signedInAtSeconds + refreshMaxSeconds - nowSeconds));
}

/** Returns the settings in effect for an app. Its overrides precede the settings of the sandbox. */
export function settingsFor(
  overrides: AppOverrides | undefined,
  defaults: DefaultSettings,
  refreshTokens: RefreshPolicy,
): AppSettings {
  const definedOverrides = Object.fromEntries(
    Object.entries(overrides ?? {}).filter(([, value]) => value !== undefined),
  );
  return {
    ...defaults,
    refreshPolicy: refreshTokens.policy,
    graceSeconds: refreshTokens.graceSeconds,
    sendExpiresIn: true,
    restrictTokens: false,
    demandSecondFactor: false,
    requirePkce: false,
    requirePushedRequests: false,
    requireDpop: false,
    requireDpopNonce: false,
    ...definedOverrides,
  };
}

/**
 * Returns whether a token may be used from an address. The networks of the account apply if the app or the account
 * restricts tokens.
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
