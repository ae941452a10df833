/** The settings of the BIN lookup service, and the documents that list them. */
import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { PROBLEM_CODES } from '../../src/bin-lookup-service/problems.ts';
import {
  BIN_SERVICE_PREAMBLE,
  BIN_SERVICE_SETTINGS,
  loadBinServiceSettings,
} from '../../src/bin-lookup-service/settings.ts';
import { startBinService } from '../../src/bin-lookup-service/start.ts';
import { anyText } from '../support/any-text.ts';
import { CLOSED_LIST_HEADER, CLOSED_LIST_ROWS } from '../support/closed-list-rows.ts';
import { exampleFile } from '../support/example-file.ts';
import { watchedLog } from '../support/log-watch.ts';
import { command, settingsFor, startBinSite, temporaryFolder } from './site.ts';

const load = (env: Record<string, string | undefined>, files: Record<string, string> = {}) =>
  loadBinServiceSettings({
    env,
    readFile: (path) => {
      const text = files[path];
      if (text === undefined) throw new Error('no such file');
      return text;
    },
  });
const SIGN_IN = { SIGN_IN_ISSUER: 'https://idp.example.com', SIGN_IN_CLIENT_ID: 'bins', SIGN_IN_CLIENT_SECRET: 'kept' };

describe('settings', () => {
  test('none is required', () => {
    expect(load({}).settings).toMatchObject({
      publicUrl: { href: 'http://127.0.0.1:3003' },
      listen: { host: '127.0.0.1', port: 3003 },
      dataDirectory: './data/bin-lookup-service',
      free: { monthlyRequests: 10_000, requestsPerMinute: 12_000 },
      plans: [
        { name: 'starter', monthlyRequests: 100_000, requestsPerMinute: 60_000 },
        { name: 'business', monthlyRequests: 1_000_000, requestsPerMinute: 600_000 },
      ],
      paymentToken: undefined,
      bans: { refusals: 1_000, seconds: 3_600 },
      signIn: undefined,
      pages: { operatorName: 'BIN lookup' },
    });
  });

  test('all faults are reported at once, each with the name of its setting', () => {
    const wrong = {
      ...{ HOST: '0.0.0.0', PORT: '70000', PLANS: 'free:1', FREE_MONTHLY_REQUESTS: '1e3', BAN_SECONDS: '0' },
      ...{ BAN_REFUSALS: '-1', TRUSTED_PROXIES: 'somewhere', SIGN_IN_ISSUER: 'https://idp.example.com' },
    };
    const { faults } = load(wrong);
    // The same rules serve Gatehouse, which is another program.
    expect(faults.join('\n')).not.toMatch(/gatehouse/i);
    const named = new Set(faults.map((fault) => fault.split(/[ :,]/)[0]));
    expect(named).toEqual(
      new Set([
        ...['PUBLIC_URL', 'PORT', 'PLANS', 'FREE_MONTHLY_REQUESTS', 'BAN_SECONDS', 'BAN_REFUSALS'],
        ...['TRUSTED_PROXIES', 'SIGN_IN_ISSUER'],
      ]),
    );
  });

  test('R79 an issuer at a forbidden address is refused', () => {
    expect(load({ ...SIGN_IN, SIGN_IN_ISSUER: 'http://10.0.0.1' }).faults).toEqual([
      expect.stringMatching(/^SIGN_IN_ISSUER: /),
    ]);
    expect(load(SIGN_IN).settings?.signIn).toMatchObject({ name: 'idp.example.com', clientSecret: 'kept' });
  });

  test.each(['!', '~'])('PAYMENT_TOKEN must fit into a header: %s', (sign) => {
    const random = randomBytes(150).toString('base64url').slice(0, 199);
    const faultsOf = (PAYMENT_TOKEN: string) => load({ PAYMENT_TOKEN }).faults;
    expect(faultsOf(random + sign)).toEqual([]);
    expect(faultsOf(random.slice(0, 31) + sign)).toEqual([]);
    for (const token of [
      `${random}${sign}x`,
      `${random.slice(0, 40)} x`,
      `${random.slice(0, 40)}é`,
      random.slice(0, 31),
    ])
      expect(faultsOf(token)).toEqual([expect.stringMatching(/^PAYMENT_TOKEN .+; generate one with: openssl/)]);
  });

  test('a secret can come from a file, but not from both a file and a variable', () => {
    const { SIGN_IN_CLIENT_SECRET: _secret, ...rest } = SIGN_IN;
    const env = { ...rest, SIGN_IN_CLIENT_SECRET_FILE: '/run/s' };
    expect(load(env, { '/run/s': 'kept\n' }).settings?.signIn?.clientSecret).toBe('kept');
    expect(load(env).faults[0]).toMatch(/^SIGN_IN_CLIENT_SECRET_FILE names a file/);
    expect(load({ ...SIGN_IN, ...env }, { '/run/s': 'kept' }).faults[0]).toMatch(/both set/);
  });

  test('loading never throws, for any environment', () => {
    const names = Object.keys(BIN_SERVICE_SETTINGS);
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom(...names), anyText()), (env) => {
        const { settings, faults } = load(env);
        expect(settings === undefined).toBe(faults.length > 0);
      }),
      { numRuns: 30 },
    );
  });

  test('invalid settings end the start with status 78 and a list of all faults', async () => {
    const { status, err } = await command(await settingsFor({ PLANS: 'x', BAN_SECONDS: 'x' }));
    expect(status).toBe(78);
    expect(err).toMatch(/^The BIN lookup service cannot start:\n- PLANS: .*\n- BAN_SECONDS .*\n/);
  });
});

describe('documents', () => {
  const root = join(import.meta.dirname, '..', '..');
  const read = (path: string) => readFileSync(join(root, path), 'utf8');

  test('docs/bin-lookup-service.env.example is generated from the table, with every setting commented out and every secret empty', async () => {
    const example = exampleFile(BIN_SERVICE_PREAMBLE, BIN_SERVICE_SETTINGS);
    await expect(example).toMatchFileSnapshot(join(root, 'docs', 'bin-lookup-service.env.example'));
    expect(example).not.toMatch(/^[A-Z]/m);
    for (const [name, facts] of Object.entries(BIN_SERVICE_SETTINGS))
      if ('secret' in facts) expect(example).toMatch(new RegExp(`^#${name}=$`, 'm'));
  });

  test('docs/bin-lookup-service.md names every problem code', () => {
    for (const code of PROBLEM_CODES.filter((problem) => !['internal', 'not_found'].includes(problem)))
      expect(read('docs/bin-lookup-service.md')).toContain(`\`${code}\``);
  });
});

test('a BIN_DATASET_FILE of an unknown shape is refused with advice for this program', async () => {
  const folder = temporaryFolder();
  const file = join(folder.path, 'own.csv');
  writeFileSync(file, 'low,high\n999900,999901\n');
  const fault = expect.stringMatching(/^BIN_DATASET_FILE: (?!.*bin import).* Rename the columns of the file /);
  await expect(startBinService(await settingsFor({ BIN_DATASET_FILE: file }), watchedLog([]))).rejects.toMatchObject({
    faults: [fault],
  });
  folder.remove();
});

test('responds with the data of BIN_DATASET_FILE, and logs the numbers of skipped and conflicting rows', async () => {
  const folder = temporaryFolder();
  const file = join(folder.path, 'own.csv');
  const rows = [
    '999900,VISA,DEBIT,SE',
    '4571736012345674,VISA,DEBIT,SE',
    '999901,VISA,DEBIT,SE',
    '999901,VISA,DEBIT,DK',
  ];
  writeFileSync(file, ['bin,brand,type,alpha_2', ...rows, '999901123,VISA,DEBIT,FR', ''].join('\n'));
  const site = await startBinSite({ BIN_DATASET_FILE: file });
  try {
    expect(await (await fetch(`${site.url}/999900`)).json()).toMatchObject({
      type: 'debit',
      country: { alpha2: 'SE' },
    });
    const conflicting = await (await fetch(`${site.url}/999901`)).json();
    expect(conflicting).toMatchObject({ scheme: 'visa', type: 'debit' });
    expect(conflicting).not.toHaveProperty('country');
    // The built-in data set and the rules still apply.
    expect(await (await fetch(`${site.url}/45717360`)).json()).toMatchObject({ bank: { name: 'Jyske Bank' } });
    expect((await fetch(`${site.url}/411111`)).headers.get('gatehouse-source')).toBe('rules');
    const logLine = site.logs().find((line) => line.includes('BIN data set loaded'));
    expect(JSON.parse(logLine ?? '{}')).toMatchObject({ source: 'own.csv', rows: 3, badRows: 2, conflicts: 1 });
  } finally {
    await site.close();
    folder.remove();
  }
});

test('network, type and prepaid of BIN_DATASET_FILE are of closed lists, and no other fact is served', async () => {
  const folder = temporaryFolder();
  const file = join(folder.path, 'words.csv');
  const rows = CLOSED_LIST_ROWS.map(({ bin, cells }) => `${bin};${cells};SE`);
  writeFileSync(file, [CLOSED_LIST_HEADER, ...rows, ''].join('\n'));
  const site = await startBinSite({ BIN_DATASET_FILE: file });
  try {
    for (const { bin, facts } of CLOSED_LIST_ROWS) {
      const response = await fetch(`${site.url}/${bin}`);
      const { number: _number, country, bank, ...card } = (await response.json()) as Record<string, unknown>;
      const { bank: bankName, ...cardFacts } = facts;
      expect(response.headers.get('gatehouse-source')).toBe('dataset');
      expect([bin, card, bank]).toEqual([bin, cardFacts, bankName && { name: bankName }]);
      expect(country).toMatchObject({ alpha2: 'SE' });
    }
  } finally {
    await site.close();
    folder.remove();
  }
});
