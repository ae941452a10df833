/** The doctor's findings from the tokens of real users. */
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import type { ProviderMetadata } from '../../shared/provider/provider-metadata.ts';
import { type Finding, failed, passed, unknown } from './finding.ts';
import type { Observation } from './observations.ts';

/** @param observation undefined if no user has signed in or connected yet */
export function observationFindings(
  app: ConnectedApp,
  observation: Observation | undefined,
  metadata: ProviderMetadata | undefined,
): Finding[] {
  if (!observation)
    return (['refresh_token', 'rotation', 'lifetime'] as const).map((check) => unknown(check, NO_SIGN_IN_YET));
  return [
    refreshTokenFinding(observation, offlineAdvice(app, metadata?.scopes_supported)),
    rotationFinding(app, observation),
    lifetimeFinding(app, observation),
  ];
}

const NO_SIGN_IN_YET = 'No user has signed in or connected with this app yet. Check again after that.';

function refreshTokenFinding(
  { refreshToken: isIssued, expiresIn }: Observation,
  advice: Pick<Finding, 'advice' | 'pointer'>,
): Finding {
  if (isIssued === undefined) return unknown('refresh_token', NO_SIGN_IN_YET);
  if (isIssued) return passed('refresh_token', 'The last sign-in returned a refresh token.');
  const detail = 'The last sign-in returned no refresh token';
  if (expiresIn) return failed('refresh_token', `${detail}: users must connect again each time.`, advice);
  // At some providers access tokens do not expire.
  return unknown('refresh_token', `${detail}, and no lifetime: without one the access token may not expire.`, advice);
}

/** Providers that do not list `offline_access` may refuse the request for it. */
function offlineAdvice({ scopes }: ConnectedApp, listed: unknown): Pick<Finding, 'advice' | 'pointer'> {
  if (Array.isArray(listed) && listed.includes('offline_access') && !scopes.includes('offline_access'))
    return { advice: 'Request the scope offline_access.', pointer: '#/scopes' };
  const advice =
    'Allow refresh tokens for this registration at the provider. Some providers issue them only for a particular scope or authorization parameter: see its documentation.';
  return { advice, pointer: '#/parameters' };
}

function rotationFinding({ refresh }: ConnectedApp, { rotates }: Observation): Finding {
  if (rotates === undefined) return unknown('rotation', 'Nothing has been refreshed yet.');
  const behavior = rotates ? 'Each refresh returns a new refresh token.' : 'Refresh tokens stay the same.';
  if (refresh === undefined || (refresh === 'rotating') === rotates) return passed('rotation', behavior);
  return failed('rotation', `${behavior} The app is set to "${refresh}".`, {
    advice: 'Leave the setting out, or correct it.',
    pointer: '#/refresh',
  });
}

function lifetimeFinding({ accessTokenLifetimeSeconds: setting }: ConnectedApp, { expiresIn }: Observation): Finding {
  if (expiresIn) return passed('lifetime', 'Token responses state the lifetime of the access token.');
  if (setting !== undefined)
    return passed('lifetime', `Token responses do not state it; the setting of ${setting} s is used.`);
  return unknown(
    'lifetime',
    'Token responses do not state it: only a 401 of the platform shows that the token has expired.',
    {
      advice: 'If you know the lifetime, set accessTokenLifetimeSeconds: it saves one failed call.',
      pointer: '#/accessTokenLifetimeSeconds',
    },
  );
}
