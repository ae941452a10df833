/** The doctor: tests a connected app before users do, and reports a finding for each requirement. */
import type { Outbound } from '../../shared/outbound/outbound.ts';
import { type ConnectedApp, callbackUrlOf, isOpenIdApp } from '../../shared/provider/connected-app.ts';
import { isIssuerTemplate, namedTenants } from '../../shared/provider/issuer.ts';
import { describeFailure, failedCall, ProviderError } from '../../shared/provider/provider-error.ts';
import {
  discoveryUrlOf,
  ineffectiveEndpoints,
  ineffectiveWords,
  type ProviderMetadata,
  type ProviderMetadataSource,
} from '../../shared/provider/provider-metadata.ts';
import { createSigningKeys } from '../../shared/provider/signing-keys.ts';
import { cutText } from '../../shared/text.ts';
import { type CallParts, checkAuthorization } from './check-authorization.ts';
import { checkClientAuthentication, checkPlatform, checkRevocation } from './check-calls.ts';
import { checkDiscovery, type DiscoveryFindings } from './check-discovery.ts';
import { checkMetadata } from './check-metadata.ts';
import { observationFindings } from './check-observations.ts';
import { checkPreset } from './check-preset.ts';
import { CHECKS, type CheckName, type Finding, failed, passed, unknown } from './finding.ts';
import type { Observations } from './observations.ts';
import { signInClaimWarning, TENANT_RULE } from './registration-rules.ts';

interface AppCheckParts extends CallParts {
  metadata: ProviderMetadataSource;
  observations: Pick<Observations, 'read'>;
  /** Milliseconds since the epoch. */
  clock: () => number;
}

export interface AppCheck {
  /** One finding for each check, in the order of `CHECKS`; never throws because of the provider. */
  run(registered: ConnectedApp): Promise<Finding[]>;
}

export function createAppCheck(parts: AppCheckParts): AppCheck {
  return {
    async run(registered) {
      // Caches are keyed by the app object, so a copy makes the metadata source call the provider again.
      const app = { ...registered };
      const callback = ownCallback(app, parts.publicHref);
      const discovery = await checkDiscovery(parts, app);
      const metadataOrError = await parts.metadata.load(app).catch((error: unknown) => ProviderError.from(error));
      // Sign-ins read the metadata again, too.
      parts.metadata.markStale(registered);
      const [observation, platform] = await Promise.all([parts.observations.read(app.id), checkPlatform(parts, app)]);
      const provider =
        metadataOrError instanceof ProviderError
          ? metadataFailure(app, discovery, metadataOrError)
          : await providerFindings(parts, { app, discovery, metadata: metadataOrError });
      const observations = observationFindings(
        app,
        observation,
        metadataOrError instanceof ProviderError ? undefined : metadataOrError,
      );
      const findings = [
        callback,
        ruleFinding(app),
        checkPreset(app),
        ...discovery.findings,
        ...provider,
        ...observations,
        ...platform,
      ];
      return inOrder(metadataOrError instanceof ProviderError ? [...findings, ...notTried(findings)] : findings);
    },
  };
}

function ownCallback(app: ConnectedApp, publicHref: string): Finding {
  const ownUrl = callbackUrlOf(app.id, publicHref);
  if (app.callbackUrls.includes(ownUrl))
    return passed('callback_listed', "The app's callback URLs include that of this server.");
  return failed(
    'callback_listed',
    "The app's callback URLs lack that of this server: no user is sent to the provider.",
    {
      advice: `Add ${ownUrl} to the callback URLs, here and at the provider.`,
      pointer: '#/callbackUrls',
    },
  );
}

/** Whether the provider sends the claim is seen only at a sign-in. */
function ruleFinding(app: ConnectedApp): Finding {
  if (typeof app.signIn?.allow !== 'object') return passed('rule', 'No claim decides who may sign in.');
  const warning = signInClaimWarning(app);
  if (warning === undefined) return passed('rule', 'The rule names a claim, or a JSON Pointer to one.');
  const details = { advice: `${warning}.`, pointer: '#/signIn/allow/claim' };
  return unknown('rule', 'The claim of the rule looks like a path, but is no JSON Pointer.', details);
}

function metadataFailure(app: ConnectedApp, discovery: DiscoveryFindings, failure: ProviderError): Finding[] {
  if (failure.reason === 'issuer_mismatch') {
    const issuerNamed = discovery.issuer === undefined ? 'another issuer' : `the issuer ${quoted(discovery.issuer)}`;
    const advice = isIssuerTemplate(discovery.issuer ?? '')
      ? `For one tenant, set its own issuer: this one with the id of the tenant in place of {tenantid}. For several, set the issuer exactly as shown, discoveryUrl to ${discoveryUrlOf(app)} and signIn to ${TENANT_RULE}.`
      : 'Set the issuer exactly as shown, including a slash at the end.';
    return [
      failed('issuer', `The provider names ${issuerNamed}, which is not the registered one.`, {
        advice,
        pointer: '#/issuer',
      }),
    ];
  }
  if (failure.reason === 'endpoint_refused') {
    return [
      failed('endpoints', `The ${failure.facts.endpoint} may not be called: ${describeFailure(failure)}.`, {
        advice:
          failedCall(failure)?.advice ?? 'Endpoints must be https and public, or their host named in INTERNAL_HOSTS.',
        pointer: '#/endpoints',
      }),
    ];
  }
  if (failure.reason === 'endpoint_missing') {
    return [
      failed('endpoints', 'The metadata of the provider lacks the authorization endpoint or the token endpoint.', {
        advice: 'Set them by hand in endpoints.',
        pointer: '#/endpoints',
      }),
    ];
  }
  return [];
}

/** Quoted and shortened, since the provider may send any text. */
const quoted = (text: string) => JSON.stringify(cutText(text, 200));

async function providerFindings(
  parts: AppCheckParts,
  { app, discovery, metadata }: { app: ConnectedApp; discovery: DiscoveryFindings; metadata: ProviderMetadata },
): Promise<Finding[]> {
  const [authorization, ...calls] = await Promise.all([
    checkAuthorization(parts, app),
    ...(isOpenIdApp(app) ? [publishedKeys(parts.outbound, app, metadata)] : []),
    checkClientAuthentication(parts, app, metadata),
    checkRevocation(parts, app, metadata),
  ]);
  // A response to this client overrides what the metadata says.
  const described = checkMetadata(app, metadata).filter(
    ({ check }) => !authorization.some((finding) => finding.check === check),
  );
  return [issuerFinding(app, discovery), endpointsFinding(app, metadata), ...described, ...authorization, ...calls];
}

function endpointsFinding(app: ConnectedApp, metadata: ProviderMetadata): Finding {
  const names = ineffectiveEndpoints(app, metadata);
  if (names.length === 0) return passed('endpoints', 'Every endpoint may be called.');
  const { detail, advice } = ineffectiveWords(names);
  return unknown('endpoints', detail, { advice, pointer: `#/endpoints/${names[0]}` });
}

function issuerFinding(app: ConnectedApp, { issuer }: DiscoveryFindings): Finding {
  const tenants = namedTenants(app).length;
  if (isIssuerTemplate(app.issuer) && tenants === 0) {
    return failed(
      'issuer',
      'The issuer is a template for many tenants, but the app names none of them, so no ID token is accepted.',
      {
        advice: `Set signIn to ${TENANT_RULE}, with the ids of the tenants whose users may sign in.`,
        pointer: '#/signIn',
      },
    );
  }
  if (issuer === undefined) return unknown('issuer', 'Without discovery, the registered issuer is used unchecked.');
  const tenantWords = isIssuerTemplate(app.issuer)
    ? `, and the app names ${tenants === 1 ? 'one tenant' : `${tenants} tenants`}`
    : '';
  return passed('issuer', `The provider names the registered issuer${tenantWords}.`);
}

async function publishedKeys(
  outbound: Outbound,
  app: ConnectedApp,
  { jwks_uri: url }: ProviderMetadata,
): Promise<Finding> {
  const advice = {
    advice: 'Set endpoints.jwks, or ask the provider to publish its keys.',
    pointer: '#/endpoints/jwks',
  };
  if (url === undefined) return failed('keys', 'No key set is known, so no ID token can be verified.', advice);
  try {
    const signingKeys = createSigningKeys({ outbound, monotonicClock: () => performance.now() });
    const { keys } = (await signingKeys.load(url, app.id)).jwks();
    return keys.length > 0
      ? passed('keys', `The provider publishes ${keys.length} ${keys.length === 1 ? 'key' : 'keys'}.`)
      : failed('keys', 'The provider publishes no keys.', advice);
  } catch (error) {
    return failed('keys', `The provider's keys cannot be read: ${describeFailure(error)}.`, {
      ...advice,
      advice: failedCall(error)?.advice ?? advice.advice,
    });
  }
}

/** Findings for checks that an earlier failure prevented. */
function notTried(findings: readonly Finding[]): Finding[] {
  const done = new Set(findings.map(({ check }) => check));
  return ORDER.filter((check) => !done.has(check) && check !== 'platform').map((check) =>
    unknown(check, 'Not tried: fix the problem above first.'),
  );
}

const ORDER = Object.keys(CHECKS) as CheckName[];

function inOrder(findings: readonly Finding[]): Finding[] {
  return findings.toSorted((left, right) => ORDER.indexOf(left.check) - ORDER.indexOf(right.check));
}
