/** Rules for a registration beyond its schema: fields that need each other, and URLs that may be called. */
import { type InputFault, pointerTo } from '../config/input-faults.ts';
import { ADDRESS_ADVICE, type AddressRule } from '../outbound/address-policy.ts';
import type { ConnectedAppRegistration } from './connected-app.ts';

/** Fields with faults are left out; the schema reports them. */
export type PartialRegistration = {
  [Field in keyof ConnectedAppRegistration]?: ConnectedAppRegistration[Field] | undefined;
};

/** Faults over several fields: a sign-in app without OpenID Connect, and endpoints that need each other. */
export function coherenceFaults(
  app: PartialRegistration,
  isFaulty: (field: string) => boolean = () => false,
): InputFault[] {
  const { authorization, token, jwks } = app.endpoints ?? {};
  const byHand = authorization !== undefined || token !== undefined;
  const fault = (path: string[], detail: string) => ({ pointer: pointerTo(path), rule: 'incomplete', detail });
  return [
    ...(app.signIn && !isFaulty('scopes') && !app.scopes?.includes('openid')
      ? [fault(['scopes'], 'an app for sign-in must be an OpenID provider and request the scope "openid".')]
      : []),
    ...(authorization && !token ? [fault(['endpoints', 'token'], 'give it together with authorization.')] : []),
    ...(token && !authorization ? [fault(['endpoints', 'authorization'], 'give it together with token.')] : []),
    ...(app.signIn && byHand && !app.discoveryUrl && !jwks
      ? [fault(['endpoints', 'jwks'], 'needed to verify the ID tokens of an app for sign-in.')]
      : []),
  ];
}

/** Every URL that Gatehouse would call, with the path of its field. */
export function calledUrls({ issuer, discoveryUrl, endpoints, apiBaseUrl }: PartialRegistration): [string[], string][] {
  const inEndpoints = Object.entries(endpoints ?? {}).map(([name, url]) => [['endpoints', name], url] as const);
  const urls = [
    [['issuer'], issuer],
    [['discoveryUrl'], discoveryUrl],
    ...inEndpoints,
    [['apiBaseUrl'], apiBaseUrl],
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
