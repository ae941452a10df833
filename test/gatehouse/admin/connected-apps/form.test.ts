/** The form of a connected app shows every field of a registration, and returns it unchanged. */
import { expect, test } from 'vitest';
import { z } from 'zod';
import { DRAWN_FIELDS, drawnSettings } from '../../../../src/gatehouse/admin/connected-apps/drawn-fields.ts';
import { enteredRegistration, newAppForm, valuesOfApp } from '../../../../src/gatehouse/admin/connected-apps/form.ts';
import { connectedAppSchema } from '../../../../src/shared/provider/connected-app.ts';

const MINIMAL_APP = {
  ...{ id: 'platform', name: 'Platform', issuer: 'https://idp.test', clientId: 'c', scopes: ['openid'] },
  callbackUrls: ['https://gatehouse.test/oauth/callback/platform'],
};
const HOST = 'https://elsewhere.test';
const FULL_APP = {
  ...MINIMAL_APP,
  ...{ discoveryUrl: `${HOST}/d`, apiBaseUrl: HOST, threadPath: '/t', tokenEndpointAuthMethod: 'private_key_jwt' },
  endpoints: Object.fromEntries(
    Object.keys(connectedAppSchema.shape.endpoints.unwrap().shape).map((name) => [name, `${HOST}/${name}`]),
  ),
  signIn: { allow: { claim: 'groups', values: ['staff', 'partners'] } },
  ...{
    returnUrls: [`${HOST}/1`, `${HOST}/2`],
    accessTokenLifetimeSeconds: 60,
    endsEarlierTokens: true,
    parameters: { audience: 'a=b', x: '' },
  },
  ...{ tokenParameters: { tenant: 'a b' }, tokenPath: 'data.authed_user' },
  resources: [`${HOST}/api`, 'urn:example:reports'],
  ...{ refresh: 'rotating', providerSignOut: false, par: 'required', dpop: 'off' },
  rateLimit: { perUserPerMinute: 5, perAppPerMinute: 50 },
  ...{ prompt: ['consent', 'select_account'], account: { field: 'data.id', url: `${HOST}/me` } },
  routes: [{ name: 'thread', method: 'GET', path: '/1/threads/{id}', query: ['fields'], scopes: ['openid'] }],
  apiBaseUrlFrom: { member: 'api_domain', hosts: ['.elsewhere.test', 'api.elsewhere.test:8443'] },
};

test.each([
  ['with only the required fields', MINIMAL_APP],
  ['with every field', FULL_APP],
  ['that sends no prompt', { ...MINIMAL_APP, prompt: 'off' }],
])('the form returns an app %s unchanged', (_words, registration) => {
  const app = connectedAppSchema.parse(registration);
  const { id, initialAccessToken: _, ...form } = newAppForm.parse(valuesOfApp(app));
  expect(
    connectedAppSchema
      .extend({ clientSecret: connectedAppSchema.shape.name.optional() })
      .parse({ id, ...enteredRegistration(form, form.callbackUrl) }),
  ).toEqual(app);
});

test.each([
  ['audience=a\naudience=b', 'Enter each name once.'],
  ['audience', 'Write each line as name=value.'],
])('no line of %j is dropped or changed', (parameters, message) => {
  const { error } = newAppForm.safeParse({ ...valuesOfApp(), parameters });
  expect(error?.issues).toMatchObject([{ path: ['parameters'], message }]);
});

test('an app of the file shows each field that is set, and none that is not', () => {
  expect(drawnSettings(connectedAppSchema.parse(MINIMAL_APP))).toEqual([]);
  const shown = new Map(drawnSettings(connectedAppSchema.parse(FULL_APP)));
  expect([...shown.keys()]).toEqual(DRAWN_FIELDS.map(({ label }) => label));
  expect(shown.get('Signing out here also signs out at the provider')).toBe('No');
  expect(shown.get('Return URLs')).toBe(`${HOST}/1, ${HOST}/2`);
});

/** Returns the paths of the members of the schema that this value lacks. */
function missingMembers(schema: z.core.$ZodType, value: unknown): string[] {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault) return missingMembers(schema.unwrap(), value);
  if (schema instanceof z.ZodArray) return missingMembers(schema.element, (value as unknown[])[0]);
  if (schema instanceof z.ZodUnion) return schema.options.flatMap((option) => missingMembers(option, value));
  if (!(schema instanceof z.ZodObject)) return [];
  return Object.entries(schema.shape).flatMap(([name, member]) => {
    if (typeof value !== 'object' || value === null || !(name in value)) return [name];
    return missingMembers(member, value[name as keyof typeof value]).map((path) => `${name}.${path}`);
  });
}

test('every field and member is tested here, except the one with its own button', () => {
  expect(missingMembers(connectedAppSchema, FULL_APP)).toEqual(['disabled']);
  const { perAppPerMinute: _, ...rateLimit } = FULL_APP.rateLimit;
  expect(missingMembers(connectedAppSchema, { ...FULL_APP, rateLimit })).toEqual([
    'rateLimit.perAppPerMinute',
    'disabled',
  ]);
});
