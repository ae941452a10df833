/** Owns what a registration must fulfil beyond its shape: fields that need each other, and URLs that may be called. */
import { type InputFault, pointerTo } from '../input-faults.ts';
import { ADDRESS_ADVICE, type AddressRule } from '../outbound/address-policy.ts';
import type { ConnectedAppRegistration } from './connected-app.ts';

/** Fields that are missing are those that were not in order: they are judged elsewhere. */
export type PartialRegistration = {
  [Field in keyof ConnectedAppRegistration]?: ConnectedAppRegistration[Field] | undefined;
};

/** What no single field shows: OpenID Connect where people sign in, endpoints that need each other. */
export function coherenceFaults(
  app: PartialRegistration,
  isFaulty: (field: string) => boolean = () => false,
): InputFault[] {
  const { authorization, token, jwks } = app.endpoints ?? {};
  const byHand = authorization !== undefined || token !== undefined;
  const fault = (path: string[], detail: string) => ({ pointer: pointerTo(path), rule: 'incomplete', detail });
  return [
    ...(app.signIn && !isFaulty('scopes') && !app.scopes?.includes('openid')
      ? [
          fault(
            ['scopes'],
            'an app that people sign in with must be an OpenID provider and ask for the scope "openid".',
          ),
        ]
      : []),
    ...(authorization && !token ? [fault(['endpoints', 'token'], 'give it together with authorization.')] : []),
    ...(token && !authorization ? [fault(['endpoints', 'authorization'], 'give it together with token.')] : []),
    ...(app.signIn && byHand && !app.discoveryUrl && !jwks
      ? [fault(['endpoints', 'jwks'], 'needed to verify the ID tokens of an app that people sign in with.')]
      : []),
  ];
}

/** Every URL that Gatehouse itself would call, with the path of its field. */
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

/** Judges those URLs (R79). @param judge the rule that a URL breaks, as written or as its host name resolves now */
export async function addressFaults(
  app: PartialRegistration,
  judge: (url: string) => Promise<AddressRule | undefined>,
): Promise<InputFault[]> {
  const found = await Promise.all(calledUrls(app).map(async ([path, url]) => ({ path, rule: await judge(url) })));
  return found.flatMap(({ path, rule }) => (rule ? [addressFault(path, rule)] : []));
}

export function addressFault(path: string[], rule: AddressRule): InputFault {
  return { pointer: pointerTo(path), rule, detail: ADDRESS_ADVICE[rule] };
}
