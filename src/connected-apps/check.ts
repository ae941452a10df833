/** Owns the doctor: tries a connected app before users do, and says of each thing it needs whether that is in order. */
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
import { ProviderError } from './provider-error.ts';
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
/** ID tokens are taken with a skew of 30 s; a little less leaves room. */
const MOST_SKEW_SECONDS = 20;

export function createAppCheck(parts: AppCheckParts): AppCheck {
  return {
    async run(registered) {
      // A new object has no memory: the provider is asked now, whatever is known of it already.
      const app = { ...registered };
      const own = ownCallback(app, parts.publicHref);
      const answer = await askDiscovery(parts, app);
      const loaded = await parts.metadata.load(app).catch((error: unknown) => ProviderError.from(error));
      const [observation, platform] = await Promise.all([parts.observations.read(app.id), checkPlatform(parts, app)]);
      const provider =
        loaded instanceof ProviderError
          ? unreached(answer, loaded)
          : await reached(parts, { app, answer, metadata: loaded });
      const findings = [own, ...answer.findings, ...provider, ...observed(app, observation), ...platform];
      return inOrder(loaded instanceof ProviderError ? [...findings, ...untried(findings)] : findings);
    },
  };
}

interface DiscoveryAnswer {
  findings: Finding[];
  /** The issuer that the provider names, where it names one. */
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

/** Discovery once more by itself, for what its answer alone shows: status, protection and the provider's clock. */
async function askDiscovery({ outbound, clock }: AppCheckParts, app: ConnectedApp): Promise<DiscoveryAnswer> {
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
    const answer = await outbound.fetch(url, { headers: { accept: 'application/json' } }, LIMITS);
    const issuer = await issuerOf(answer);
    const findings = [
      judgeDiscovery(answer.status, issuer, pointer),
      protection(url),
      clockDifference(answer, clock()),
    ];
    return issuer === undefined ? { findings } : { findings, issuer };
  } catch (error) {
    const advice = 'Check the issuer, that its host can be reached from here, and its certificate.';
    return { findings: [problem('discovery', `Discovery cannot be read: ${reasonOf(error)}.`, { advice, pointer })] };
  }
}

async function issuerOf(answer: Response): Promise<string | undefined> {
  const body: unknown = await answer.json().catch(() => undefined);
  return typeof body === 'object' && body !== null && 'issuer' in body && typeof body.issuer === 'string'
    ? body.issuer
    : undefined;
}

function judgeDiscovery(status: number, issuer: string | undefined, pointer: string): Finding {
  if (status === 200 && issuer !== undefined) return fine('discovery', 'The provider describes itself.');
  const seen = status === 200 ? 'an answer that is no provider metadata' : `status ${status}`;
  const moved =
    status >= 300 && status < 400 ? ' Redirects are not followed: set discoveryUrl to the final address.' : '';
  return problem('discovery', `Discovery answers with ${seen}.${moved}`, {
    advice: 'Check the issuer; where discovery lies elsewhere set discoveryUrl, where there is none set the endpoints.',
    pointer,
  });
}

function protection(url: string): Finding {
  return url.startsWith('https:')
    ? fine('tls', 'The connection is protected and the certificate is valid.')
    : cannotTell('tls', 'The provider is called without TLS, which is allowed on this machine only.');
}

function clockDifference(answer: Response, now: number): Finding {
  const theirs = Date.parse(answer.headers.get('date') ?? '');
  if (Number.isNaN(theirs)) return cannotTell('clock', 'The provider does not tell its time.');
  // The header has whole seconds, cut off.
  const seconds = Math.round((now - theirs - 500) / 1000);
  const words = `This clock is ${Math.abs(seconds)} s ${seconds < 0 ? 'behind' : 'ahead of'} the provider's.`;
  if (Math.abs(seconds) <= MOST_SKEW_SECONDS)
    return fine('clock', Math.abs(seconds) <= 1 ? 'The clocks agree.' : words);
  return problem('clock', words, {
    advice: 'Synchronise the clock of this server (NTP): ID tokens seem expired or not yet valid.',
  });
}

function unreached(answer: DiscoveryAnswer, failure: ProviderError): Finding[] {
  if (failure.reason === 'issuer_mismatch') {
    return [
      problem('issuer', `The provider calls itself ${shown(answer.issuer)}, which is not the issuer that is set.`, {
        advice: 'Set the issuer exactly so, letter by letter; a slash at the end counts.',
        pointer: '#/issuer',
      }),
    ];
  }
  if (failure.reason === 'endpoint_refused') {
    return [
      problem('endpoints', `The provider names an address that may not be called: ${failure.facts.endpoint}.`, {
        advice: 'Endpoints must be https and public, or their host named in INTERNAL_HOSTS.',
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

/** A provider may write anything there. */
const shown = (text = 'otherwise') => JSON.stringify(text.slice(0, 200));

async function reached(
  parts: AppCheckParts,
  { app, answer, metadata }: { app: ConnectedApp; answer: DiscoveryAnswer; metadata: ProviderMetadata },
): Promise<Finding[]> {
  const issuer =
    answer.issuer === undefined
      ? cannotTell('issuer', 'Without discovery the issuer is what was set.')
      : fine('issuer', 'The provider calls itself by the issuer that is set.');
  const [asked, ...calls] = await Promise.all([
    checkAuthorization(parts, app),
    ...(isOpenIdApp(app) ? [signingKeys(parts.outbound, parts.clock, metadata)] : []),
    checkClientAuthentication(parts, app),
    checkRevocation(parts, app, metadata),
  ]);
  // What the provider answers to this client counts more than what it tells everybody.
  const told = checkMetadata(app, metadata).filter(({ check }) => !asked.some((one) => one.check === check));
  return [issuer, fine('endpoints', 'Every endpoint is one that may be called.'), ...told, ...asked, ...calls];
}

async function signingKeys(
  outbound: Outbound,
  clock: () => number,
  { jwks_uri: url }: ProviderMetadata,
): Promise<Finding> {
  const advice = { advice: 'Set endpoints.jwks, or have the provider publish its keys.', pointer: '#/endpoints/jwks' };
  if (url === undefined) return problem('keys', 'No key set is known, so no ID token can be verified.', advice);
  try {
    const { keys } = (await (await createSigningKeys({ outbound, clock }).fetch(url)).json()) as { keys: unknown[] };
    return keys.length > 0
      ? fine('keys', `The provider publishes ${keys.length} ${keys.length === 1 ? 'key' : 'keys'}.`)
      : problem('keys', 'The provider publishes no keys.', advice);
  } catch (error) {
    return problem('keys', `The provider's keys cannot be read: ${reasonOf(error)}.`, advice);
  }
}

/** What the tokens of real people showed. */
function observed(app: ConnectedApp, observation: Observation | undefined): Finding[] {
  if (!observation) {
    const detail = 'Nobody has signed in or connected with this app yet; afterwards this says more.';
    return (['refresh_token', 'rotation', 'lifetime'] as const).map((check) => cannotTell(check, detail));
  }
  return [
    observation.refreshToken
      ? fine('refresh_token', 'The last sign-in brought a refresh token.')
      : problem('refresh_token', 'The last sign-in brought no refresh token: people must connect again each time.', {
          advice: 'Ask for the scope offline_access, or allow refresh tokens for this registration at the provider.',
          pointer: '#/scopes',
        }),
    rotation(app, observation),
    lifetime(app, observation),
  ];
}

function rotation({ refresh }: ConnectedApp, { rotates }: Observation): Finding {
  if (rotates === undefined) return cannotTell('rotation', 'Nothing has been refreshed yet.');
  const seen = rotates ? 'Each refresh brings a new refresh token.' : 'Refresh tokens stay the same.';
  if (refresh === undefined || (refresh === 'rotating') === rotates) return fine('rotation', seen);
  return problem('rotation', `${seen} The app is set to "${refresh}".`, {
    advice: 'Leave the setting out, or correct it.',
    pointer: '#/refresh',
  });
}

function lifetime({ accessTokenLifetimeSeconds: set }: ConnectedApp, { expiresIn }: Observation): Finding {
  if (expiresIn) return fine('lifetime', 'Token answers say how long the access token lasts.');
  if (set !== undefined) return fine('lifetime', `Token answers do not say it; the app's own ${set} s count.`);
  return cannotTell('lifetime', 'Token answers do not say it: a 401 of the platform is what tells.', {
    advice: 'If you know the lifetime, set accessTokenLifetimeSeconds: it spares people that one lost call.',
    pointer: '#/accessTokenLifetimeSeconds',
  });
}

/** What could not be looked at, because something before it failed, is said so. */
function untried(findings: readonly Finding[]): Finding[] {
  const found = new Set(findings.map(({ check }) => check));
  return ORDER.filter((check) => !found.has(check) && check !== 'platform').map((check) =>
    cannotTell(check, 'Not tried: mend what is above first.'),
  );
}

const ORDER = Object.keys(CHECKS) as CheckName[];

function inOrder(findings: readonly Finding[]): Finding[] {
  return findings.toSorted((one, other) => ORDER.indexOf(one.check) - ORDER.indexOf(other.check));
}
