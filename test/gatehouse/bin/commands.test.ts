/** `bin import`, `bin rollback` and `bin enrich` while Gatehouse runs, and the overview that administrators see. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { BUILT_IN_ABOUT, REAL_USE } from '../../../src/shared/bin/built-in-dataset.ts';
import { withCheckDigit } from '../../support/bins.ts';
import type { UserAgent } from '../../support/browserless.ts';
import { CLOSED_LIST_HEADER, CLOSED_LIST_ROWS } from '../../support/closed-list-rows.ts';
import { getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { startProgram } from '../../support/program.ts';
import { ACCEPT_HTML, ACCEPT_JSON, sendRequest } from '../../support/send-request.ts';
import { runCommand } from '../../support/terminal.ts';
import { until } from '../../support/until.ts';

const HEADER = 'BIN,Brand,Type,Category,Issuer,IssuerPhone,IssuerUrl,isoCode2,isoCode3,CountryName';

let site: TestSite;
let agent: UserAgent;
let cookie: string;
beforeAll(async () => {
  site = await startSite();
  agent = (await signIn(site, 'admin@example.test')).agent;
  cookie = agent.cookies.header(site.url);
});
afterAll(() => site.close());

function write(name: string, content: string | Buffer): string {
  const path = join(site.dataDirectory, '..', name);
  writeFileSync(path, content);
  return path;
}

async function gatehouse(...args: string[]) {
  const { status, stdout: out, stderr: err } = await runCommand(['bin', ...args], site.env);
  return { status, out, err };
}

const bankOf = async (digits: string) => {
  const { json, headers } = await getJson(agent, `${site.url}/bin/${digits}`);
  return [(json.bank as { name?: string } | undefined)?.name, headers.get('gatehouse-source')];
};
const countCalls = () => site.sandbox.requests.latest('bin-lookup-service').length;
const readBinData = async () => (await getJson(agent, `${site.url}/admin/api/bin`)).json;

/** Gatehouse switches to a data set shortly after the command has ended. */
const untilInUse = (source: string) =>
  until(async () => ((await readBinData()).dataset as { source?: string }).source === source);

async function readAdvice() {
  const { body } = await sendRequest(`${site.url}/admin/bin`, { headers: { ...ACCEPT_HTML, cookie } });
  return {
    isExample: body.includes(BUILT_IN_ABOUT) && body.includes(REAL_USE),
    isOld: body.includes('more than two years old'),
    hasCommand: body.includes('npm run gatehouse -- bin import bins.csv --as-of'),
  };
}

test('administrators see the built-in data set before anything is imported', async () => {
  expect(await readBinData()).toMatchObject({
    dataset: { origin: 'built_in', licence: 'CC BY 4.0', badRows: null, faults: [], importedAt: null },
    previous: null,
    quota: { used: 0, limit: 10_000, userReserve: 1_000, userDailyQuota: 100 },
    service: { status: 'not_called' },
    cache: { hitRate: null },
  });
  expect(await readAdvice()).toEqual({ isExample: true, isOld: false, hasCommand: true });
});

describe('bin import', () => {
  test('activates the data set in the running process, and reports every bad row without digits', async () => {
    const file = write(
      'one.csv.gz',
      gzipSync(
        `${HEADER}\n999900,VISA,DEBIT,,FIRST BANK,,,DK,,\n4571736012345674,VISA,,,,,,DK,,\n999901,VISA,,,,,,QQ,,\n`,
      ),
    );
    const bad = join(site.dataDirectory, '..', 'bad.csv');
    const options = ['--source', 'A source', '--as-of', '2024-02-03', '--licence', 'A licence', '--bad-rows', bad];
    const { status, out, err } = await gatehouse('import', file, ...options);
    expect([status, err]).toEqual([0, '']);
    expect(out).toContain('Imported 1 row of the shape bin-list-data. Now in use: A source, as of 2024-02-03, 1 row (');
    await untilInUse('A source');
    expect(out).toContain('Skipped 2 bad rows:');
    expect(out).toContain('line 3: the range does not begin and end with 6 to 11 digits');
    expect(out).toContain('line 4: the country “QQ” is not in ISO 3166-1');
    expect(readFileSync(bad, 'utf8')).toBe(
      [
        'line,reason,detail',
        '3,not_6_to_11_digits,"the range does not begin and end with 6 to 11 digits, or with longer numbers padded with 0 and 9: correct it"',
        '4,country_unknown,"the country “QQ” is not in ISO 3166-1: enter the code of a country, or remove the row"',
        '',
      ].join('\n'),
    );
    expect(out).not.toContain('45717');
    await until(async () => (await bankOf('999900'))[0] === 'FIRST BANK');
    expect(await bankOf('999900')).toEqual(['FIRST BANK', 'dataset']);
  });

  test('lists bad rows in the order of their lines, even if no row is valid', async () => {
    const file = write('none.csv', `${HEADER}\n999902,VISA,,,,,,QQ,,\n"999903,VISA,,,,,,DK,,\n999904,VISA,,,,,,,,\n`);
    const bad = join(site.dataDirectory, '..', 'none-bad.csv');
    const { status, err } = await gatehouse('import', file, '--bad-rows', bad);
    expect([status, err]).toEqual([1, expect.stringContaining('has no usable row: all 3 were left out')]);
    expect(readFileSync(bad, 'utf8')).toMatch(
      /^line,reason,detail\n2,country_unknown,".*"\n3,not_csv,".*"\n4,country_missing,".*"\n$/,
    );
    expect(await bankOf('999900')).toEqual(['FIRST BANK', 'dataset']);
  });

  test('shows administrators source, date, licence, rows, bad rows and coverage', async () => {
    expect(await readBinData()).toMatchObject({
      dataset: {
        ...{ origin: 'import', source: 'A source', asOf: '2024-02-03', licence: 'A licence', rows: 1, badRows: 2 },
        faults: [
          { line: 3, reason: 'not_6_to_11_digits' },
          { line: 4, reason: 'country_unknown' },
        ],
        importedAt: expect.stringMatching(/^\d{4}-/),
      },
      networks: [{ key: 'visa', rows: 1 }],
      countries: [{ key: 'DK', name: 'Denmark', rows: 1 }],
    });
    const { status, body } = await sendRequest(`${site.url}/admin/bin`, { headers: { ...ACCEPT_HTML, cookie } });
    expect(status).toBe(200);
    for (const text of ['A source', '3 February 2024', 'A licence', 'Line 3:', 'Denmark', '<meter', '<svg', 'banks-db'])
      expect(body).toContain(text);
    expect(body).not.toMatch(/style="|<script(?![^>]* src=")/);
    expect(await readAdvice()).toEqual({ isExample: false, isOld: true, hasCommand: true });
  });

  test('gives the reason for an unusable file, and keeps the current data set', async () => {
    const { status, out, err } = await gatehouse('import', write('bad.csv.txt', `${HEADER}\nx,,,,,,,,,\n`));
    expect([status, out]).toEqual([1, '']);
    expect(err).toMatch(/This cannot be done: .*has no usable row/);
    expect((await bankOf('999900'))[0]).toBe('FIRST BANK');
    expect((await gatehouse('import', 'one.csv', '--as-of', '2026-02-30')).err).toContain(
      'Use a date such as 2026-11-21.',
    );
  });

  test('a file in another encoding is refused at the import, at bin enrich and in BIN_DATASET_FILE', async () => {
    const file = write('latin.csv', Buffer.from(`${HEADER}\n999900,VISA,DEBIT,,Banco Itaú,,,BR,,\n`, 'latin1'));
    const problem = expect.stringContaining('is neither UTF-8 nor UTF-16 with a byte order mark. Save it as');
    expect(await gatehouse('import', file)).toEqual({ status: 1, out: '', err: problem });
    expect((await bankOf('999900'))[0]).toBe('FIRST BANK');

    const out = join(site.dataDirectory, '..', 'enriched.csv');
    expect(await gatehouse('enrich', file, '--column', 'BIN', '--out', out)).toEqual({
      status: 1,
      out: '',
      err: problem,
    });
    expect(readdirSync(dirname(out))).not.toContain('enriched.csv');

    const check = await runCommand(['config', 'check'], { ...site.env, BIN_DATASET_FILE: file });
    expect([check.status, check.stderr + check.stdout]).toEqual([78, problem]);
  });

  test('survives a restart, can be rolled back, and is audited', async () => {
    const file = write('two.csv', `${HEADER}\n999900,VISA,DEBIT,,SECOND BANK,,,SE,,\n`);
    const { out } = await gatehouse('import', file, '--json');
    const licence = 'The file states no licence: see where you obtained it.';
    expect(JSON.parse(out)).toMatchObject({ source: 'two.csv', licence, rows: 1, badRows: 0, faults: [] });
    await until(async () => (await bankOf('999900'))[0] === 'SECOND BANK');
    expect(await readAdvice()).toEqual({ isExample: false, isOld: false, hasCommand: false });
    await site.restart();
    expect(await bankOf('999900')).toEqual(['SECOND BANK', 'dataset']);
    expect(await readBinData()).toMatchObject({ previous: { source: 'A source' } });
    expect((await gatehouse('rollback')).out).toContain('Now in use: A source, as of 2024-02-03');
    await until(async () => (await bankOf('999900'))[0] === 'FIRST BANK');
    const { json } = await getJson(agent, `${site.url}/admin/api/audit?limit=100`);
    const events = (json.items as { event: string; actor: { kind: string } }[]).map(({ event, actor }) => [
      event,
      actor.kind,
    ]);
    expect(events.filter(([event]) => event?.startsWith('bin_dataset'))).toEqual([
      ['bin_dataset.rolled_back', 'operator'],
      ['bin_dataset.imported', 'operator'],
      ['bin_dataset.imported', 'operator'],
    ]);
  });

  test('has no effect while BIN_DATASET_FILE is set', async () => {
    const rows = '999900,VISA,DEBIT,,BANK OF THE FILE,,,SE,,\n4571736012345674,VISA,,,,,,DK,,\n';
    site.env.BIN_DATASET_FILE = write('file.csv', `${HEADER}\n${rows}`);
    try {
      await site.restart();
      expect((await bankOf('999900'))[0]).toBe('BANK OF THE FILE');
      expect(await readBinData()).toMatchObject({
        dataset: {
          ...{ origin: 'file', source: 'file.csv', rows: 1, badRows: 1, importedAt: null },
          faults: [{ line: 3, reason: 'not_6_to_11_digits' }],
        },
        // A rollback would change nothing here.
        previous: null,
      });
      const { body } = await sendRequest(`${site.url}/admin/bin`, { headers: { ...ACCEPT_HTML, cookie } });
      expect(body).toContain('Line 3: the range does not begin');
      expect(body).toContain('takes precedence over imports');
      expect(body).not.toContain('Import another one');
      const loadedLines = site.logs().filter((line) => line.includes('BIN data set loaded'));
      expect(JSON.parse(loadedLines.at(-1) ?? '{}')).toMatchObject({ source: 'file.csv', rows: 1, badRows: 1 });
      const { out } = await gatehouse('import', write('late.csv', `${HEADER}\n999900,VISA,DEBIT,,LATE BANK,,,SE,,\n`));
      expect(out).toContain('Imported 1 row of the shape bin-list-data. Stored: late.csv, as of ');
      expect(out).toContain('BIN_DATASET_FILE is set and takes precedence');
      expect(out).not.toContain('Now in use');
      expect((await bankOf('999900'))[0]).toBe('BANK OF THE FILE');
      expect((await gatehouse('rollback')).out).toMatch(/^Stored: A source, .*\nBIN_DATASET_FILE is set/);
    } finally {
      delete site.env.BIN_DATASET_FILE;
      await site.restart();
    }
  });
});

describe('bin enrich', () => {
  test('writes the file again with the facts of each row, by data set and service', async () => {
    const callsBefore = countCalls();
    const input = write('in.csv', 'id,card\n1,999900\n2,45717360\n3,45717360\n4,nonsense\n');
    const target = join(site.dataDirectory, '..', 'out.csv');
    const { status, out } = await gatehouse('enrich', input, '--column', 'card', '--out', target, '--json');
    expect(status).toBe(0);
    expect(JSON.parse(out)).toEqual({ rows: 4, outcomes: { dataset: 1, service: 2, invalid_bin: 1 } });
    const lines = readFileSync(target, 'utf8').split('\n');
    expect(lines[1]).toMatch(/^1,999900,visa,debit,,,DK,FIRST BANK,dataset,2024-02-03,6,$/);
    expect(lines[2]).toMatch(/^2,45717360,visa,debit,Visa\/Dankort,false,DK,Jyske Bank,service,/);
    expect(lines[4]).toBe('4,nonsense,,,,,,,,,,invalid_bin');
    expect(countCalls() - callsBefore).toBe(1);
    const piped = await gatehouse('enrich', input, '--column', 'card');
    expect(piped.out.replaceAll('cache', 'service')).toBe(lines.join('\n'));
    expect(piped.err).toContain('Enriched 4 rows');
  });

  test('network, type and prepaid are of closed lists, and no other fact is written', async () => {
    const rows = CLOSED_LIST_ROWS.map(({ bin, cells }) => `${bin};${cells};SE`);
    const BIN_DATASET_FILE = write('words.csv', [CLOSED_LIST_HEADER, ...rows, ''].join('\n'));
    const input = write('bins.csv', ['card', ...CLOSED_LIST_ROWS.map(({ bin }) => bin), ''].join('\n'));
    const args = ['bin', 'enrich', input, '--column', 'card'];
    const { status, stdout } = await runCommand(args, { ...site.env, BIN_DATASET_FILE });
    expect(status).toBe(0);
    const written = stdout.split('\n').slice(1, -1);
    expect(written.map((line) => line.split(',').slice(0, 8))).toEqual(
      CLOSED_LIST_ROWS.map(({ bin, facts: { scheme = '', type = '', brand = '', prepaid = '', bank = '' } }) => {
        return [bin, scheme, type, brand, String(prepaid), 'SE', bank, 'dataset'];
      }),
    );
  });

  test('a column that --columns names twice, or that the header has twice, is refused', async () => {
    const file = write('twice.csv', 'low,c,c\n999900,US,DK\n');
    const inHeader = await gatehouse('import', file, '--columns', 'start=low,country=c');
    expect([inHeader.status, inHeader.err]).toEqual([1, expect.stringContaining('has the column c more than once. ')]);
    const inOption = await gatehouse('import', file, '--columns', 'start=low,country=c,country=low');
    expect([inOption.status, inOption.err]).toEqual([
      expect.any(Number),
      expect.stringContaining('Name each field once.'),
    ]);
  });

  test('R85 R86 refuses card numbers before any call, and leaves no file', async () => {
    const callsBefore = countCalls();
    const cardNumber = withCheckDigit('457173601234567');
    const input = write('cards.csv', `id,card\n1,42000001\n2,${cardNumber}\n`);
    const target = join(site.dataDirectory, '..', 'refused.csv');
    const { status, out, err } = await gatehouse('enrich', input, '--column', 'card', '--out', target);
    expect([status, out]).toEqual([1, '']);
    expect(err).toContain('Line 3, column "card": the value has more than 8 digits');
    expect(err).not.toContain(cardNumber.slice(0, 4));
    expect(readdirSync(dirname(target)).filter((name) => name.startsWith('refused.csv'))).toEqual([]);
    expect(countCalls()).toBe(callsBefore);
  });

  test('accepts a gzipped file, and gives the fault of an unreadable one', async () => {
    const whole = gzipSync('id,card\n1,999900\n');
    const { status, out } = await gatehouse('enrich', write('in.csv.gz', whole), '--column', 'card');
    expect([status, out.split('\n')[1]]).toEqual([0, '1,999900,visa,debit,,,DK,FIRST BANK,dataset,2024-02-03,6,']);
    const cut = await gatehouse('enrich', write('cut.csv.gz', whole.subarray(0, 25)), '--column', 'card');
    expect([cut.status, cut.err]).toEqual([1, expect.stringContaining('cannot be unpacked')]);
    const missing = await gatehouse('enrich', join(site.dataDirectory, 'none.csv'), '--column', 'card');
    expect([missing.status, missing.err]).toEqual([1, expect.stringContaining('does not exist: check the path')]);
  });

  test('ends without an error when the reader closes the output', async () => {
    const input = write('long.csv', `id,card\n${Array.from({ length: 20_000 }, (_, n) => `${n},999900\n`).join('')}`);
    const line = 'node src/cli.ts bin enrich "$1" --column card | head -n 1; echo "Read." >&2';
    const program = startProgram(['sh', '-c', line, 'sh', input], site.env);
    await program.ended;
    expect(program.stdout().split('\n')).toEqual([expect.stringMatching(/^id,card,bin_scheme/), '']);
    expect(program.stderr()).toBe('Read.\n');
  });

  test('its lookups appear in the counts of the server', async () => {
    await getJson(agent, `${site.url}/bin/45717360`);
    expect(await readBinData()).toMatchObject({
      quota: { used: expect.any(Number) },
      service: { status: 'working', lastResponseAt: expect.stringMatching(/^\d{4}-/) },
      lookups: { outcomes: { service: expect.any(Number), dataset: expect.any(Number) } },
      cache: { hitRate: expect.any(Number) },
    });
    const { lookups, cache } = (await readBinData()) as {
      lookups: { outcomes: Record<string, number> };
      cache: { hits: number };
    };
    expect(lookups.outcomes.service).toBeGreaterThanOrEqual(1);
    expect(cache.hits).toBeGreaterThanOrEqual(2);
  });

  test('F20 shows that the service fails', async () => {
    site.sandbox.faults.set({ listener: 'bin-lookup-service', kind: 'error' });
    expect((await sendRequest(`${site.url}/bin/99000099`, { headers: { ...ACCEPT_JSON, cookie } })).status).toBe(503);
    // The network of this one is known here as well as there.
    const known = await sendRequest(`${site.url}/bin/42000099`, { headers: { ...ACCEPT_JSON, cookie } });
    expect([known.status, JSON.parse(known.body).scheme]).toEqual([200, 'visa']);
    expect(known.headers).toMatchObject({ 'gatehouse-source': 'rules', 'retry-after': '30' });
    const { body: page } = await agent.submit(await agent.get(`${site.url}/bin`), { bin: '42000099' });
    expect(page).toContain('The BIN lookup service could not be called.');
    site.sandbox.faults.clear();
    expect((await readBinData()).service).toMatchObject({ status: 'failing', lastFailure: 'status' });
    const { body } = await sendRequest(`${site.url}/admin/bin`, { headers: { ...ACCEPT_HTML, cookie } });
    expect(body).toContain('it responded with an error');
  });
});

test('bin import tells which rows contradict each other, and which no lookup can use', async () => {
  const row = (digits: string, bank: string, country: string) => `${digits},VISA,DEBIT,,${bank},,,${country},,`;
  const pairs = Array.from({ length: 101 }, (_, index) =>
    ['A', 'B'].map((bank) => row(String(999_700 + index), bank, 'DK')),
  );
  const long = Array.from({ length: 101 }, (_, index) => row(String(999_700_123 + index), 'Long', 'FR'));
  const rows = [row('999600', 'First', 'US'), row('999600', 'Second', 'FR'), row('999601', 'Same', 'US')];
  const content = [HEADER, ...rows, rows[2], ...pairs.flat(), ...long, row('999902', '', 'QZ'), ''].join('\n');
  const file = write('conflicts.csv', content);
  const { status, out } = await gatehouse('import', file, '--as-of', '2026-11-01');
  expect(status).toBe(0);
  expect(out).toContain(
    '102 BINs or ranges come more than once, with different facts. Only what their rows have in common is used: correct the rows, and import the file again.\n  lines 2 and 3\n',
  );
  expect(out).toMatch(/\n {2}lines 202 and 203\n {2}and 2 more\n$/);
  expect(out).toContain('Skipped 102 bad rows:\n  line 208: no lookup can use it, since it covers no BIN of 8 digits');
  expect(out).toMatch(
    /and 2 more: use --bad-rows FILE to list them all\nAll of them by reason:\n {2}101 rows, such as line 208: no lookup .*\n {2}1 row, such as line 309: the country “QZ” is/,
  );
  const { out: json } = await gatehouse('import', file, '--as-of', '2026-11-01', '--json');
  expect(JSON.parse(json)).toMatchObject({
    reasons: [
      { reason: 'more_than_8_digits', rows: 101, line: 208 },
      { reason: 'country_unknown', rows: 1, line: 309 },
    ],
    conflicts: { count: 102 },
  });
  await untilInUse('conflicts.csv');
  expect((await readBinData()).dataset).toMatchObject({
    badRows: 102,
    reasons: [{ reason: 'more_than_8_digits', rows: 101, detail: expect.stringMatching(/^no lookup/) }, { rows: 1 }],
    conflicts: { count: 102, ranges: expect.arrayContaining([{ lines: [2, 3] }]) },
  });
  await until(async () => (await bankOf('999601'))[0] === 'Same');
  expect(await bankOf('999600')).toEqual([undefined, 'dataset']);
  const { body } = await sendRequest(`${site.url}/admin/bin`, { headers: { ...ACCEPT_HTML, cookie } });
  expect(body).toMatch(/<dt>BINs with conflicting rows<\/dt><dd>102</);
  expect(body).toContain('<li>Lines 2 and 3</li>');
  expect(body).toMatch(/101 rows, such as line 208: no lookup/);
});

test('bin import tells which values of closed lists are not understood', async () => {
  const row = (digits: string, network: string, type: string) => `${digits},${network},${type},,,,,US,,`;
  const rows = [
    row('999500', 'NSPK MIR', 'D'),
    row('999501', 'LOCAL <b>', 'DEBIT'),
    row('999502', 'LOCAL <b>', 'Both'),
  ];
  const file = write('words.csv', [HEADER, ...rows, ''].join('\n'));
  const { out } = await gatehouse('import', file, '--as-of', '2026-11-01');
  expect(out).toContain(
    'a name that is no network’s becomes part of the brand:\n  column Brand: 2 rows have a value that is not understood, most often LOCAL <b> (2)\n  column Type: 1 row has a value that is not understood, most often Both (1)\n',
  );
  const notUnderstood = [
    { column: 'Brand', rows: 2, values: [{ value: 'LOCAL <b>', rows: 2 }] },
    { column: 'Type', rows: 1, values: [{ value: 'Both', rows: 1 }] },
  ];
  const { out: json } = await gatehouse('import', file, '--as-of', '2026-11-01', '--json');
  expect(JSON.parse(json)).toMatchObject({ notUnderstood });
  await untilInUse('words.csv');
  expect((await readBinData()).dataset).toMatchObject({ notUnderstood });
  const { body } = await sendRequest(`${site.url}/admin/bin`, { headers: { ...ACCEPT_HTML, cookie } });
  expect(body).toMatch(/<bdi>Brand<\/bdi>: 2 rows, most often\s+<bdi>LOCAL &lt;b&gt;<\/bdi> \(2\)/);
});
