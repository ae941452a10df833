/** The presets: valid settings, a source for each fact, and the advice for an app of their provider. */
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { checkPreset } from '../../../src/gatehouse/connected-apps/check-preset.ts';
import {
  PRESETS,
  type Preset,
  presetApp,
  presetLimits,
  recognisePreset,
  SIMULATED,
} from '../../../src/gatehouse/connected-apps/presets.ts';
import { coherenceFaults } from '../../../src/gatehouse/connected-apps/registration-rules.ts';
import { type ConnectedApp, connectedAppSchema } from '../../../src/shared/provider/connected-app.ts';
import { presetPage } from '../../support/preset-page.ts';

/** The fields that no preset has. */
const IDENTITY = { id: 'own', name: 'Own', clientId: 'c', callbackUrls: ['https://gatehouse.test/oauth/callback/own'] };
const presetOf = (id: string): Preset => PRESETS.find((preset) => preset.id === id) as Preset;

/** An app with the preset's settings, except for these changes. */
function appOf(preset: Preset, changes: object = {}): ConnectedApp {
  const examples: Record<string, string> = {};
  for (const [name, { example }] of Object.entries(preset.placeholders)) examples[name] = example;
  const app = { ...IDENTITY, ...presetApp(preset, examples), ...changes };
  return { ...connectedAppSchema.parse(app), clientSecret: 's' };
}

test('docs/provider-presets.md is generated from the presets', async () => {
  const path = join(import.meta.dirname, '../../..', 'docs', 'provider-presets.md');
  await expect(presetPage(PRESETS)).toMatchFileSnapshot(path);
});

test('each names its limits: it cannot sign users in, or was not tried with a real server', () => {
  const isWithoutSignIn = (preset: Preset) => presetLimits(preset).some((text) => text.includes('not sign in'));
  const idsWithoutSignIn = PRESETS.filter(isWithoutSignIn).map(({ id }) => id);
  expect(idsWithoutSignIn).toEqual(['github-app', 'github-oauth-app', 'slack', 'atlassian', 'zoom', 'hubspot']);

  const isSimulated = (preset: Preset) => presetLimits(preset).includes(SIMULATED);
  for (const preset of PRESETS) {
    expect(isSimulated({ ...preset, triedWith: 'simulation' })).toBe(true);
    expect(isSimulated({ ...preset, triedWith: 'server' })).toBe(false);
  }
});

test('each has a unique id', () => {
  expect(new Set(PRESETS.map(({ id }) => id)).size).toBe(PRESETS.length);
});

describe.each(PRESETS.map((preset) => [preset.name, preset] as const))('%s', (_name, preset) => {
  test('is a valid registration once its placeholders are filled in', () => {
    expect(coherenceFaults(appOf(preset))).toEqual([]);
    expect(JSON.stringify(appOf(preset)).replaceAll('{tenantid}', '')).not.toMatch(/\{\w+\}/);
  });

  test('uses each placeholder, and its example fits', () => {
    for (const [name, { example, pattern }] of Object.entries(preset.placeholders)) {
      expect(JSON.stringify(preset.app)).toContain(`{${name}}`);
      expect(example).toMatch(new RegExp(`^(?:${pattern})$`));
    }
  });

  test('has a fact for each setting, except for an example path', () => {
    const fieldsOfFacts = new Set<string>(preset.facts.flatMap(({ fields }) => fields));
    const fieldsOfApp = Object.keys(preset.app).filter((name) => name !== 'threadPath');
    expect(fieldsOfApp.filter((name) => !fieldsOfFacts.has(name))).toEqual([]);
    expect([...fieldsOfFacts].filter((name) => !(name in preset.app))).toEqual([]);
  });

  test('is recognised, and has no advice for its own settings', () => {
    const app = appOf(preset);
    expect(recognisePreset(app)).toEqual({ preset, differences: [] });
    const detail = `The settings are those of the preset "${preset.name}".`;
    expect(checkPreset(app)).toEqual({ check: 'preset', result: 'passed', detail });
  });
});

describe('an app with other settings than the preset of its provider', () => {
  const fieldsOf = (app: ConnectedApp) => recognisePreset(app)?.differences.map(({ field }) => field);

  test.each<[string, object, string[]]>([
    ['google', { parameters: undefined }, ['parameters']],
    ['google', { parameters: { access_type: 'offline', login_hint: 'x' } }, []],
    ['google', { issuer: 'https://accounts.google.com/' }, ['issuer']],
    ['google', { scopes: ['openid', 'https://www.googleapis.com/auth/drive.readonly'] }, []],
    ['github-app', { scopes: ['repo'], tokenEndpointAuthMethod: 'private_key_jwt' }, ['tokenEndpointAuthMethod']],
    ['github-app', { refresh: 'reusable' }, ['refresh']],
    ['github-app', { issuer: 'https://github.com/login/oauth' }, ['issuer']],
    ['github-oauth-app', { tokenEndpointAuthMethod: 'client_secret_basic' }, ['tokenEndpointAuthMethod']],
    ['entra', { issuer: 'https://login.microsoftonline.com/common/v2.0' }, ['issuer']],
    ['okta', { scopes: ['openid'] }, ['scopes']],
    ['okta', { issuer: 'https://login.example.okta.com/oauth2/aus1' }, undefined as never],
    ['zoom', { apiBaseUrl: undefined, threadPath: '/x' }, []],
  ])('%s with %j differs in %j', (id, changes, fields) => {
    expect(fieldsOf(appOf(presetOf(id), changes))).toEqual(fields);
  });

  test('gets the values of the preset with their reasons; a fact without a source is marked as not confirmed', () => {
    const app = appOf(presetOf('auth0'), { parameters: undefined, tokenEndpointAuthMethod: 'client_secret_basic' });
    expect(checkPreset(app)).toEqual({
      check: 'preset',
      result: 'unknown',
      detail: 'The provider looks like "Auth0". Its preset has other settings: tokenEndpointAuthMethod, parameters.',
      advice: expect.stringMatching(
        /^tokenEndpointAuthMethod: "client_secret_post"\. .*\(Not confirmed\.\) parameters: \{"audience":"\{audience\}"\}\. /,
      ),
      pointer: '#/tokenEndpointAuthMethod',
    });
  });

  test('of an unknown provider has no preset', () => {
    const detail = 'No preset is known for this provider.';
    const app = appOf(presetOf('google'), { issuer: 'https://idp.example.com' });
    expect(checkPreset(app)).toEqual({ check: 'preset', result: 'unknown', detail });
  });
});
