/** The doctor: tests a connected app before users do, and reports a finding for each thing that the app needs. */

import { isObject } from '../json.ts';
import type { Outbound } from '../outbound/outbound.ts';
import {
  type CallParts,
  checkAuthorization,
  checkClientAuthentication,
  checkPlatform,
  checkRevocation,
  reasonOf,
} from './check-calls.ts';
import { checkMetadata } from './check-metadata.ts';
import { type ConnectedApp, callbackUrlOf, isOpenIdApp } from './connected-app.ts';
import { CHECKS, type CheckName, cannotTell, type Finding, fine, problem } from './finding.ts';
import type { Observation, Observations } from './observations.ts';
import { failedCall, ProviderError } from './provider-error.ts';
import {
  discoveryUrlOf,
  hasDiscovery,
  type ProviderMetadata,
  type ProviderMetadataSource,
} from './provider-metadata.ts';
import { createSigningKeys } from './signing-keys.ts';

export interface AppCheck {
  /** One finding for each check, in the order of `CHECKS`; never throws for what the provider does. */
  run(app: ConnectedApp): Promise<Finding[]>;
}

export interface AppCheckParts extends CallParts {
  metadata: ProviderMetadataSource;
  observations: Pick<Observations, 'read'>;
  /** Milliseconds since the epoch. */
  clock: () => number;
}

const LIMITS = { deadlineMilliseconds: 5_000, maxBytes: 512 * 1024 };
/** ID tokens are accepted with a skew of 30 s; this leaves some room. */
const MAX_SKEW_SECONDS = 20;

export function createAppCheck(parts: AppCheckParts): AppCheck {
  return {
    async run(registered) {
      // Caches are keyed by the app object, so a copy makes the metadata source call the provider again.
      const app = { ...registered };
      const own = ownCallback(app, parts.publicHref);
      const discovery = await fetchDiscovery(parts, app);
      const loaded = await parts.metadata.load(app).catch((error: unknown) => ProviderError.from(error));
      const [observation, platform] = await Promise.all([parts.observations.read(app.id), checkPlatform(parts, app)]);
      const provider =
        loaded instanceof ProviderError
          ? unreached(discovery, loaded)
          : await reached(parts, { app, discovery, metadata: loaded });
      const findings = [own, ...discovery.findings, ...provider, ...observed(app, observation), ...platform];
      return inOrder(loaded instanceof ProviderError ? [...findings, ...untried(findings)] : findings);
    },
  };
}

interface DiscoveryFindings {
  findings: Finding[];
  /** The issuer in the metadata. */
  issuer?: string;
}

function ownCallback(app: ConnectedApp, publicHref: string): Finding {
  if (app.callbackUrls.includes(callbackUrlOf(app.id, publicHref)))
    return fine('callback_listed', 'The callback URL of this server is among the registered ones.');
  return problem(
    'callback_listed',
    'The callback URL of this server is not among the registered ones: no request leaves.',
    {
      advice: `Add ${callbackUrlOf(app.id, publicHref)} to the callback URLs, here and at the provider.`,
      pointer: '#/callbackUrls',
    },
  );
}

/** Calls discovery separately, since only its raw response shows the status, TLS and the provider's clock. */
async function fetchDiscovery({ outbound, clock }: AppCheckParts, app: ConnectedApp): Promise<DiscoveryFindings> {
  if (!hasDiscovery(app)) {
    return {
      findings: [
        fine('discovery', 'The endpoints are set by hand, so discovery is not needed.'),
        protection(app.endpoints?.token ?? app.issuer),
      ],
    };
  }
  const url = discoveryUrlOf(app);
  const pointer = app.discoveryUrl ? '#/discoveryUrl' : '#/issuer';
  try {
    const response = await outbound.fetch(url, { headers: { accept: 'application/json' } }, LIMITS);
    const issuer = await issuerOf(response);
    const findings = [
      discoveryFinding(response.status, issuer, pointer),
      protection(url),
      clockDifference(response, clock()),
    ];
    return issuer === undefined ? { findings } : { findings, issuer };
  } catch (error) {
    const advice = failedCall(error)?.advice ?? 'Check the issuer, and that its host can be reached from here.';
    return { findings: [problem('discovery', `Discovery cannot be read: ${reasonOf(error)}.`, { advice, pointer })] };
  }
}

async function issuerOf(response: Response): Promise<string | undefined> {
  const body: unknown = await response.json().catch(() => undefined);
  return isObject(body) && typeof body.issuer === 'string' ? body.issuer : undefined;
}

function discoveryFinding(status: number, issuer: string | undefined, pointer: string): Finding {
  if (status === 200 && issuer !== undefined) return fine('discovery', 'The provider describes itself.');
  const seen = status === 200 ? 'a document that is not provider metadata' : `status ${status}`;
  const moved =
    status >= 300 && status < 400 ? ' Redirects are not followed: set discoveryUrl to the final address.' : '';
  return problem('discovery', `Discovery responds with ${seen}.${moved}`, {
    advice: 'Check the issuer; where discovery lies elsewhere set discoveryUrl, where there is none set the endpoints.',
    pointer,
  });
}

function protection(url: string): Finding {
  return url.startsWith('https:')
    ? fine('tls', 'The connection is protected and the certificate is valid.')
    : cannotTell('tls', 'The provider is called without TLS, which is allowed on this machine only.');
}

function clockDifference(response: Response, now: number): Finding {
  const theirs = Date.parse(response.headers.get('date') ?? '');
  if (Number.isNaN(theirs)) return cannotTell('clock', 'The response of the provider has no date.');
  // The header has whole seconds, rounded down.
  const seconds = Math.round((now - theirs - 500) / 1000);
  const words = `This clock is ${Math.abs(seconds)} s ${seconds < 0 ? 'behind' : 'ahead of'} the provider's.`;
  if (Math.abs(seconds) <= MAX_SKEW_SECONDS) return fine('clock', Math.abs(seconds) <= 1 ? 'The clocks agree.' : words);
  return problem('clock', words, {
    advice: 'Synchronise the clock of this server (NTP): ID tokens seem expired or not yet valid.',
  });
}

function unreached(discovery: DiscoveryFindings, failure: ProviderError): Finding[] {
  if (failure.reason === 'issuer_mismatch') {
    return [
      problem('issuer', `The provider calls itself ${shown(discovery.issuer)}, which is not the issuer that is set.`, {
        advice: 'Set the issuer exactly so, letter by letter; a slash at the end counts.',
        pointer: '#/issuer',
      }),
    ];
  }
  if (failure.reason === 'endpoint_refused') {
    return [
      problem('endpoints', `The ${failure.facts.endpoint} may not be called: ${reasonOf(failure)}.`, {
        advice:
          failedCall(failure)?.advice ?? 'Endpoints must be https and public, or their host named in INTERNAL_HOSTS.',
        pointer: '#/endpoints',
      }),
    ];
  }
  if (failure.reason === 'endpoint_missing') {
    return [
      problem('endpoints', 'The provider names no authorization endpoint or no token endpoint.', {
        advice: 'Set them by hand in endpoints.',
        pointer: '#/endpoints',
      }),
    ];
  }
  return [];
}

/** Quoted and shortened, since the provider may send any text. */
const shown = (text = 'otherwise') => JSON.stringify(text.slice(0, 200));

async function reached(
  parts: AppCheckParts,
  { app, discovery, metadata }: { app: ConnectedApp; discovery: DiscoveryFindings; metadata: ProviderMetadata },
): Promise<Finding[]> {
  const issuer =
    discovery.issuer === undefined
      ? cannotTell('issuer', 'Without discovery the issuer is what was set.')
      : fine('issuer', 'The provider calls itself by the issuer that is set.');
  const [authorization, ...calls] = await Promise.all([
    checkAuthorization(parts, app),
    ...(isOpenIdApp(app) ? [publishedKeys(parts.outbound, metadata)] : []),
    checkClientAuthentication(parts, app),
    checkRevocation(parts, app, metadata),
  ]);
  // A response to this client overrides what the metadata says.
  const described = checkMetadata(app, metadata).filter(
    ({ check }) => !authorization.some((finding) => finding.check === check),
  );
  return [
    issuer,
    fine('endpoints', 'Every endpoint is one that may be called.'),
    ...described,
    ...authorization,
    ...calls,
  ];
}

async function publishedKeys(outbound: Outbound, { jwks_uri: url }: ProviderMetadata): Promise<Finding> {
  const advice = { advice: 'Set endpoints.jwks, or have the provider publish its keys.', pointer: '#/endpoints/jwks' };
  if (url === undefined) return problem('keys', 'No key set is known, so no ID token can be verified.', advice);
  try {
    const signingKeys = createSigningKeys({ outbound, monotonicClock: () => performance.now() });
    const { keys } = (await signingKeys.load(url)).jwks();
    return keys.length > 0
      ? fine('keys', `The provider publishes ${keys.length} ${keys.length === 1 ? 'key' : 'keys'}.`)
      : problem('keys', 'The provider publishes no keys.', advice);
  } catch (error) {
    return problem('keys', `The provider's keys cannot be read: ${reasonOf(error)}.`, {
      ...advice,
      advice: failedCall(error)?.advice ?? advice.advice,
    });
  }
}

/** Findings from the tokens of real users. */
function observed(app: ConnectedApp, observation: Observation | undefined): Finding[] {
  if (!observation) {
    const detail = 'No user has signed in or connected with this app yet. Check again after that.';
    return (['refresh_token', 'rotation', 'lifetime'] as const).map((check) => cannotTell(check, detail));
  }
  return [
    observation.refreshToken
      ? fine('refresh_token', 'The last sign-in returned a refresh token.')
      : problem('refresh_token', 'The last sign-in returned no refresh token: users have to connect again each time.', {
          advice: 'Request the scope offline_access, or allow refresh tokens for this registration at the provider.',
          pointer: '#/scopes',
        }),
    rotation(app, observation),
    lifetime(app, observation),
  ];
}

function rotation({ refresh }: ConnectedApp, { rotates }: Observation): Finding {
  if (rotates === undefined) return cannotTell('rotation', 'Nothing has been refreshed yet.');
  const seen = rotates ? 'Each refresh returns a new refresh token.' : 'Refresh tokens stay the same.';
  if (refresh === undefined || (refresh === 'rotating') === rotates) return fine('rotation', seen);
  return problem('rotation', `${seen} The app is set to "${refresh}".`, {
    advice: 'Leave the setting out, or correct it.',
    pointer: '#/refresh',
  });
}

function lifetime({ accessTokenLifetimeSeconds: set }: ConnectedApp, { expiresIn }: Observation): Finding {
  if (expiresIn) return fine('lifetime', 'Token responses state the lifetime of the access token.');
  if (set !== undefined) return fine('lifetime', `Token responses do not state it; the setting of ${set} s is used.`);
  return cannotTell(
    'lifetime',
    'Token responses do not state it: only a 401 of the platform shows that the token has expired.',
    {
      advice: 'If you know the lifetime, set accessTokenLifetimeSeconds: it saves one failed call.',
      pointer: '#/accessTokenLifetimeSeconds',
    },
  );
}

/** Findings for checks that an earlier failure prevented. */
function untried(findings: readonly Finding[]): Finding[] {
  const done = new Set(findings.map(({ check }) => check));
  return ORDER.filter((check) => !done.has(check) && check !== 'platform').map((check) =>
    cannotTell(check, 'Not tried: fix the problem above first.'),
  );
}

const ORDER = Object.keys(CHECKS) as CheckName[];

function inOrder(findings: readonly Finding[]): Finding[] {
  return findings.toSorted((one, other) => ORDER.indexOf(one.check) - ORDER.indexOf(other.check));
}
