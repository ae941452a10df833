/** Rules for a registration beyond its schema: fields that need each other, and URLs that may be called. */
import { type InputFault, pointerTo } from '../../shared/config/input-faults.ts';
import { ADDRESS_ADVICE, type AddressRule } from '../../shared/outbound/address-policy.ts';
import { ambiguityAdvice, areAmbiguous, CURRENT_THREAD } from '../../shared/provider/app-routes.ts';
import { checkCallbackUrls } from '../../shared/provider/callback-url.ts';
import { claimNameWarning } from '../../shared/provider/claim-path.ts';
import { type ConnectedAppRegistration, callbackUrlOf } from '../../shared/provider/connected-app.ts';
import { isIssuerTemplate, namedTenants, TENANT_ID } from '../../shared/provider/issuer.ts';

/** Fields with faults are left out; the schema reports them. */
export type PartialRegistration = {
  [Field in keyof ConnectedAppRegistration]?: ConnectedAppRegistration[Field] | undefined;
};

const incomplete = (path: PropertyKey[], detail: string) => ({ pointer: pointerTo(path), rule: 'incomplete', detail });

/** Returns faults of several fields: a sign-in app without OpenID Connect, and fields that require each other. */
export function coherenceFaults(
  app: PartialRegistration,
  isFaulty: (field: string) => boolean = () => false,
): InputFault[] {
  const { authorization, token, jwks } = app.endpoints ?? {};
  const hasOwnEndpoints = authorization !== undefined || token !== undefined;
  return [
    ...(isIssuerTemplate(app.issuer ?? '') ? templateFaults(app, isFaulty) : []),
    ...(app.signIn && !isFaulty('scopes') && !app.scopes?.includes('openid')
      ? [incomplete(['scopes'], 'an app for sign-in must be an OpenID provider and request the scope "openid".')]
      : []),
    ...(app.apiBaseUrlFrom && !app.apiBaseUrl && !isFaulty('apiBaseUrl')
      ? [incomplete(['apiBaseUrl'], 'enter it, too: it is called if a token response names no other.')]
      : []),
    ...(authorization && !token ? [incomplete(['endpoints', 'token'], 'enter it together with authorization.')] : []),
    ...(token && !authorization ? [incomplete(['endpoints', 'authorization'], 'enter it together with token.')] : []),
    ...(app.signIn && hasOwnEndpoints && !app.discoveryUrl && !jwks
      ? [incomplete(['endpoints', 'jwks'], 'needed to verify the ID tokens of an app for sign-in.')]
      : []),
    ...(app.account && !app.account.url && hasOwnEndpoints && !app.discoveryUrl && !app.endpoints?.userinfo
      ? [incomplete(['account', 'url'], 'needed if no userinfo endpoint is known.')]
      : []),
    ...(app.resources ? (['parameters', 'tokenParameters'] as const) : [])
      .filter((field) => app[field]?.resource !== undefined)
      .map((field) => ({
        pointer: pointerTo([field, 'resource']),
        rule: 'twice',
        detail: 'remove it: the resources that the app declares are sent.',
      })),
    ...routeFaults(app, isFaulty),
  ];
}

/**
 * Returns the faults of callback URLs on the host of this Gatehouse that cannot work.
 * @param storedUrls were accepted, perhaps for another `PUBLIC_URL`
 */
export function ownCallbackFaults(
  { id, callbackUrls = [] }: PartialRegistration,
  publicHref: string,
  storedUrls: readonly string[] = [],
): InputFault[] {
  if (id === undefined) return [];
  return checkCallbackUrls(callbackUrls, { callbackUrl: callbackUrlOf(id, publicHref), publicHref })
    .filter(({ rule, position }) => rule === 'own_host' && !storedUrls.includes(callbackUrls[position] ?? ''))
    .map(({ position, rule, detail }) => ({ pointer: pointerTo(['callbackUrls', position]), rule, detail }));
}

/** Routes need a platform and scopes of the app, so that a consent can grant them. */
function routeFaults(
  { routes = [], apiBaseUrl, scopes, threadPath }: PartialRegistration,
  isFaulty: (field: string) => boolean,
): InputFault[] {
  const ofEach = routes.flatMap((route, index) => [
    ...(threadPath !== undefined && areAmbiguous({ method: 'GET', path: threadPath }, route)
      ? [{ pointer: pointerTo(['routes', index, 'path']), rule: 'ambiguous', detail: ambiguityAdvice(CURRENT_THREAD) }]
      : []),
    ...route.scopes
      .filter((scope) => !isFaulty('scopes') && !scopes?.includes(scope))
      .map((scope) => ({
        pointer: pointerTo(['routes', index, 'scopes']),
        rule: 'unknown_scope',
        detail: `the route "${route.name}" needs "${scope}": keep it among the scopes of the app, or take it out of the route.`,
      })),
  ]);
  const lacksPlatform = routes.length > 0 && !apiBaseUrl && !isFaulty('apiBaseUrl');
  return [...(lacksPlatform ? [incomplete(['apiBaseUrl'], 'enter it: routes are paths below it.')] : []), ...ofEach];
}

/** Returns a warning about the claim of `signIn` that is probably meant as a path, but is none. */
export function signInClaimWarning({ signIn }: PartialRegistration): string | undefined {
  const allow = signIn?.allow;
  return typeof allow === 'object' ? claimNameWarning(allow.claim) : undefined;
}

/** The same for apps of a file, each with the app. */
export const signInClaimWarnings = (apps: readonly PartialRegistration[]): string[] =>
  apps.flatMap((app) => {
    const warning = signInClaimWarning(app);
    return warning === undefined ? [] : [`the claim in signIn of the app "${app.id}": ${warning}.`];
  });

/** The rule that names tenants, as JSON. */
export const TENANT_RULE = '{"allow": {"claim": "tid", "values": ["TENANT ID"]}}';

/** An issuer with {tenantid} stands for many issuers: the app must name tenants, and the address of the metadata. */
function templateFaults(app: PartialRegistration, isFaulty: (field: string) => boolean): InputFault[] {
  const tenants = namedTenants(app);
  const lacksMetadata = !app.discoveryUrl && !app.endpoints?.authorization;
  return [
    ...(tenants.length === 0 && !isFaulty('signIn')
      ? [
          incomplete(
            ['signIn'],
            `with {tenantid} in the issuer, name the tenants whose users may sign in, by their claim "tid": ${TENANT_RULE}.`,
          ),
        ]
      : []),
    ...tenants.flatMap((tenant, index) =>
      TENANT_ID.test(tenant)
        ? []
        : [incomplete(['signIn', 'allow', 'values', index], 'the id of a tenant is 1 to 64 letters, digits and "-".')],
    ),
    ...(lacksMetadata && !isFaulty('discoveryUrl')
      ? [
          incomplete(
            ['discoveryUrl'],
            'with {tenantid} in the issuer, enter the address of the metadata for all tenants.',
          ),
        ]
      : []),
  ];
}

/** Returns every URL that Gatehouse would call, with the path of its field. */
export function calledUrls(app: PartialRegistration): [string[], string][] {
  const { issuer, discoveryUrl, endpoints, apiBaseUrl, account } = app;
  const inEndpoints = Object.entries(endpoints ?? {}).map(([name, url]) => [['endpoints', name], url] as const);
  const urls = [
    [['issuer'], issuer],
    [['discoveryUrl'], discoveryUrl],
    ...inEndpoints,
    [['apiBaseUrl'], apiBaseUrl],
    [['account', 'url'], account?.url],
  ] as const;
  return urls.flatMap(([path, url]) => (url === undefined ? [] : [[[...path], url] as [string[], string]]));
}

/** Checks the called URLs (R79). @param brokenRule returns the rule that a URL breaks */
export async function addressFaults(
  app: PartialRegistration,
  brokenRule: (url: string) => Promise<AddressRule | undefined>,
): Promise<InputFault[]> {
  const checked = await Promise.all(
    calledUrls(app).map(async ([path, url]) => ({ path, rule: await brokenRule(url) })),
  );
  return checked.flatMap(({ path, rule }) => (rule ? [addressFault(path, rule)] : []));
}

export function addressFault(path: string[], rule: AddressRule): InputFault {
  return { pointer: pointerTo(path), rule, detail: ADDRESS_ADVICE[rule] };
}
