/** Recognises misspelt settings in the environment, and ignores the variables of other programs. */
import { expect, test } from 'vitest';
import { ignoredSettings } from '../../../src/shared/config/ignored-settings.ts';
import { SETTINGS } from '../../../src/shared/config/settings.ts';
import { startSite } from '../../support/gatehouse.ts';

const warningsOf = (...names: string[]) =>
  ignoredSettings(Object.fromEntries(names.map((name) => [name, 'value'])), SETTINGS);

test.each([
  ['REDIS_URI', 'REDIS_URL'],
  ['TRUSTED_PROXY', 'TRUSTED_PROXIES'],
  ['SESSION_SECRET', 'SESSION_SECRETS'],
  ['SESSION_SECRET_FILE', 'SESSION_SECRETS_FILE'],
  ['ENCRYPTION_KEY', 'ENCRYPTION_KEYS'],
  ['DATADIR', 'DATA_DIR'],
  ['INTERNAL_HOST', 'INTERNAL_HOSTS'],
  ['redis_url', 'REDIS_URL'],
  ['Public_Url', 'PUBLIC_URL'],
  ['noproxy', 'NO_PROXY'],
  ['No_Proxy', 'NO_PROXY'],
  ['Https_Proxy', 'HTTPS_PROXY'],
  ['https_PROXY', 'HTTPS_PROXY'],
])('warns about %s and suggests %s', (name, setting) => {
  expect(warningsOf(name)).toEqual([`${name} is ignored. Did you mean ${setting}?`]);
});

test('does not warn about correct names, empty variables or variables of other programs', () => {
  expect(warningsOf(...Object.keys(SETTINGS), 'SESSION_SECRETS_FILE')).toEqual([]);
  expect(ignoredSettings({ REDIS_URI: ' ', SESSION_SECRET: undefined }, SETTINGS)).toEqual([]);
  const others =
    'PATH HOME USER PWD SHELL LANG TERM HOSTNAME HOSTTYPE MAIL TZ NODE_ENV NODE_OPTIONS NODE_EXTRA_CA_CERTS INVOCATION_ID ' +
    'JOURNAL_STREAM CREDENTIALS_DIRECTORY KUBERNETES_SERVICE_HOST KUBERNETES_PORT REDIS_PORT REDIS_SERVICE_HOST npm_config_loglevel';
  expect(warningsOf(...others.split(' '))).toEqual([]);
});

test.each([
  ['lower case is read, too', { https_proxy: 'a', no_proxy: 'b' }, []],
  ['the two settings may differ in case', { HTTPS_PROXY: 'a', no_proxy: 'b' }, []],
  ['both cases agree, or one is empty', { HTTPS_PROXY: 'a', https_proxy: 'a ', NO_PROXY: 'b', no_proxy: '' }, []],
  [
    'both cases differ',
    { HTTPS_PROXY: 'a', https_proxy: 'c' },
    ['HTTPS_PROXY is ignored, because https_proxy is set to another value.'],
  ],
  [
    'both cases differ',
    { NO_PROXY: 'a', no_proxy: 'c' },
    ['NO_PROXY is ignored, because no_proxy is set to another value.'],
  ],
  [
    'a range of addresses',
    { HTTPS_PROXY: 'a', NO_PROXY: 'internal.example, 10.0.0.0/8' },
    ['NO_PROXY lists ranges of addresses, which are ignored: list each host.'],
  ],
  [
    'a range of addresses',
    { https_proxy: 'a', no_proxy: 'fd00::/8 .example' },
    ['no_proxy lists ranges of addresses, which are ignored: list each host.'],
  ],
  ['without a proxy no host needs to be listed', { NO_PROXY: '10.0.0.0/8' }, []],
  ['hosts with ports', { HTTPS_PROXY: 'a', NO_PROXY: '10.1.2.3:443,[::1]:443,*.example,fd00::1' }, []],
  ['an https proxy is set as well', { http_proxy: 'a', https_proxy: 'a', HTTP_PROXY: 'b', all_proxy: 'c' }, []],
  [
    'no https proxy is set',
    { http_proxy: 'a' },
    ['http_proxy is ignored: set HTTPS_PROXY, since only https calls leave through a proxy.'],
  ],
  [
    'no https proxy is set',
    { HTTP_PROXY: 'a' },
    ['HTTP_PROXY is ignored: set HTTPS_PROXY, since only https calls leave through a proxy.'],
  ],
  [
    'no https proxy is set',
    { ALL_PROXY: 'a' },
    ['ALL_PROXY is ignored: set HTTPS_PROXY, since only https calls leave through a proxy.'],
  ],
])('warns about proxy variables that have no effect (%s): %j', (_reason, env, warnings) => {
  expect(ignoredSettings(env, SETTINGS)).toEqual(warnings);
});

test('a failed start reports misspelt settings and a successful start logs them, in both cases without values', async () => {
  const misspelt = { SESSION_SECRET: 'the-secret-itself' };
  await expect(startSite({ env: { ...misspelt, SESSION_SECRETS: '' } })).rejects.toMatchObject({
    faults: [
      expect.stringContaining('SESSION_SECRETS is required'),
      'SESSION_SECRET is ignored. Did you mean SESSION_SECRETS?',
    ],
  });

  const site = await startSite({ env: misspelt });
  const log = site.logs().join('\n');
  await site.close();
  expect(log).toContain('SESSION_SECRET is ignored. Did you mean SESSION_SECRETS?');
  expect(log).not.toContain('the-secret-itself');
});
