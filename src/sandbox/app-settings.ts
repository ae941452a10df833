/** Settings of each app: token lifetimes, use of refresh tokens, and requirements of the token endpoint. */
import { z } from 'zod';

/** What happens to used refresh tokens. May be changed while the sandbox runs. */
export interface RefreshTokens {
  /**
   * `rotating`: each is valid once, and a second use ends the grant. `reusable`: always the same token. `grace`:
   * rotating, but a used token stays valid for a while, for clients that lost the response.
   */
  policy: 'rotating' | 'reusable' | 'grace';
  /** With `grace`: how long, counted from the first use. */
  graceSeconds: number;
}

export interface AppSettings {
  accessTokenSeconds: number;
  /** A refresh token expires if it is not used for this long. */
  refreshIdleSeconds: number;
  /** A refresh token expires this long after the sign-in, even if it is used. Undefined: no such limit. */
  refreshMaxSeconds?: number;
  refreshPolicy: RefreshTokens['policy'];
  graceSeconds: number;
  /** The token endpoint does its work and then delays its response by this time. */
  tokenDelayMilliseconds: number;
  /** Off for a provider whose tokens live as long as the organisation's session. */
  sendExpiresIn: boolean;
  /** Accept the app's tokens only from the networks of their user. */
  restrictTokens: boolean;
  /** Accept authorization requests only with PKCE (RFC 7636). Public clients need it in any case. */
  requirePkce: boolean;
  /** Accept authorization requests only by PAR (RFC 9126). */
  requirePushedRequests: boolean;
  /** Issue tokens only with a DPoP proof, bound to its key (RFC 9449). */
  requireDpop: boolean;
  /** Require a nonce from the server in DPoP proofs. */
  requireDpopNonce: boolean;
}

const DAY_SECONDS = 24 * 60 * 60;

const seconds = (max: number) =>
  z.int('must be a whole number of seconds').min(1, 'must be 1 or more').max(max, `must be ${max} or less`);

export const appSettingsSchema = z.strictObject({
  accessTokenSeconds: seconds(365 * DAY_SECONDS).optional(),
  refreshIdleSeconds: seconds(365 * DAY_SECONDS).optional(),
  refreshMaxSeconds: seconds(365 * DAY_SECONDS).optional(),
  refreshPolicy: z.enum(['rotating', 'reusable', 'grace'], 'must be rotating, reusable or grace').optional(),
  graceSeconds: seconds(DAY_SECONDS).optional(),
  tokenDelayMilliseconds: z
    .int('must be a whole number of milliseconds')
    .min(0, 'must be 0 or more')
    .max(60_000, 'must be 60000 or less')
    .optional(),
  sendExpiresIn: z.boolean().optional(),
  restrictTokens: z.boolean().optional(),
  requirePkce: z.boolean().optional(),
  requirePushedRequests: z.boolean().optional(),
  requireDpop: z.boolean().optional(),
  requireDpopNonce: z.boolean().optional(),
});

export type AppChoices = z.infer<typeof appSettingsSchema>;

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

/** The settings in effect for an app: its own, with the sandbox's current ones as defaults. */
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
