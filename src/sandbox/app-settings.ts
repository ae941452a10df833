/** Owns what can be set for each app: lifetimes, what becomes of used refresh tokens, and how the token endpoint treats it. */
import { z } from 'zod';

/** What becomes of refresh tokens that are used. May be changed while the sandbox runs. */
export interface RefreshTokens {
  /**
   * `rotating`: each counts once, and a second use ends the whole grant. `reusable`: one for good. `grace`: rotating, but one
   * that was used may be used again for a while, as a client does whose answer was lost.
   */
  policy: 'rotating' | 'reusable' | 'grace';
  /** With `grace`: how long, counted from the first use. */
  graceSeconds: number;
}

export interface AppSettings {
  accessTokenSeconds: number;
  /** A refresh token ends when it was not used for so long. */
  refreshIdleSeconds: number;
  /** Left out: no end but that. Otherwise it ends so long after the sign-in, however often it is used. */
  refreshMaxSeconds?: number;
  refreshPolicy: RefreshTokens['policy'];
  graceSeconds: number;
  /** The token endpoint does its work at once and keeps its answer back for so long. */
  tokenDelayMilliseconds: number;
  /** Off, as with providers whose tokens live as long as the organisation's session. */
  sendExpiresIn: boolean;
  /** Authorization requests only by way of the PAR endpoint (RFC 9126). */
  requirePushedRequests: boolean;
  /** Tokens only with a DPoP proof, and bound to its key (RFC 9449). */
  requireDpop: boolean;
  /** DPoP proofs must carry a nonce of ours. */
  requireDpopNonce: boolean;
}

const DAY_SECONDS = 24 * 60 * 60;

const seconds = (most: number) =>
  z.int('must be a whole number of seconds').min(1, 'must be 1 or more').max(most, `must be ${most} or less`);

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
  requirePushedRequests: z.boolean().optional(),
  requireDpop: z.boolean().optional(),
  requireDpopNonce: z.boolean().optional(),
});

export type AppChoices = z.infer<typeof appSettingsSchema>;

export const DEFAULT_REFRESH_IDLE_SECONDS = 14 * DAY_SECONDS;

/** What the sandbox was started with, for apps that have no choice of their own. */
export type StartedWith = Pick<
  AppSettings,
  'accessTokenSeconds' | 'refreshIdleSeconds' | 'refreshMaxSeconds' | 'tokenDelayMilliseconds'
>;

/** How long a refresh token that is given or used now lives from now on. @param signedInAtSeconds when the first of its line was given */
export function refreshTokenSeconds(settings: AppSettings, signedInAtSeconds: number, nowSeconds: number): number {
  const { refreshIdleSeconds, refreshMaxSeconds = Number.POSITIVE_INFINITY } = settings;
  return Math.max(1, Math.min(refreshIdleSeconds, signedInAtSeconds + refreshMaxSeconds - nowSeconds));
}

/** What counts for an app: its own choices, and for the rest what the sandbox was started with, as it stands now. */
export function settingsFor(
  choices: AppChoices | undefined,
  started: StartedWith,
  refreshTokens: RefreshTokens,
): AppSettings {
  const chosen = Object.fromEntries(Object.entries(choices ?? {}).filter(([, value]) => value !== undefined));
  return {
    ...started,
    refreshPolicy: refreshTokens.policy,
    graceSeconds: refreshTokens.graceSeconds,
    sendExpiresIn: true,
    requirePushedRequests: false,
    requireDpop: false,
    requireDpopNonce: false,
    ...chosen,
  };
}
