/** BIN data in the browser and by the API: upload, check, import, roll back, and refusals. */
import { request } from 'node:http';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { withCheckDigit } from '../../../support/bins.ts';
import { useBrowser } from '../../../support/browser.ts';
import type { Page, UserAgent } from '../../../support/browserless.ts';
import { getJson, signIn, startSite, type TestSite } from '../../../support/gatehouse.ts';
import { completeProviderSignIn } from '../../../support/journey.ts';
import { ACCEPT_HTML, ACCEPT_JSON, FORM_BODY, sendRequest } from '../../../support/send-request.ts';
import { until } from '../../../support/until.ts';
import { openStorageOf, type StorageAccess } from '../../grants/storage-access.ts';
import { type Administrator, createAdministrator } from '../../relay/service.ts';

const openPage = useBrowser();
const HEADER = 'BIN,Brand,Type,Category,Issuer,IssuerPhone,IssuerUrl,isoCode2,isoCode3,CountryName';
const rowOf = (bin: string, bank: string, country = 'DK') => `${bin},VISA,DEBIT,,${bank},,,${country},,`;
const fileOf = (...rows: string[]) => [HEADER, ...rows, ''].join('\n');
const CARD = withCheckDigit('400012345678901');

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let agent: UserAgent;
beforeAll(async () => {
  site = await startSite();
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  ({ agent } = await signIn(site, 'admin@example.test'));
});
afterAll(async () => {
  await storage?.close();
  await site?.close();
});

async function credentials(): Promise<Record<string, string>> {
  const { json } = await getJson(agent, `${site.url}/session`);
  return { ...ACCEPT_JSON, cookie: agent.cookies.header(site.url), 'x-csrf-token': String(json.csrfToken) };
}

const readBinData = async () => (await getJson(agent, `${site.url}/admin/api/bin`)).json;

/** By the API, with the session of an administrator. */
async function upload(body: string | Buffer, query: string, type = 'text/csv') {
  const headers = { ...(await credentials()), 'content-type': type };
  const { status, body: text } = await sendRequest(`${site.url}/admin/api/bin/uploads?${query}`, {
    ...{ method: 'POST', headers, body },
  });
  return { status, json: JSON.parse(text) as Record<string, unknown> };
}

test('by the API: checks, stores, imports once and rolls back, with audit entries', async () => {
  const first = await upload(fileOf(rowOf('40001234', 'First')), 'asOf=2026-11-01&source=first.csv');
  expect(first).toMatchObject({
    status: 201,
    json: { source: 'first.csv', asOf: '2026-11-01', shape: 'bin-list-data', rows: 1, badRows: 0 },
  });
  expect((await readBinData()).dataset).toMatchObject({ origin: 'built_in' });
  const importUpload = (id: unknown) => admin.call('POST', `/bin/uploads/${id}/import`, {});
  expect(await importUpload(first.json.id)).toMatchObject({ status: 200, json: { source: 'first.csv', rows: 1 } });
  expect((await importUpload(first.json.id)).status).toBe(404);
  expect((await readBinData()).dataset).toMatchObject({ origin: 'import', source: 'first.csv', rows: 1 });

  // Before the first import, the built-in data set was used.
  expect((await readBinData()).previous).toMatchObject({ id: 'built_in', source: 'banks-db 0.12.0', importedAt: null });
  const rolledBack = await admin.call('POST', '/bin/rollback?to=built_in');
  expect(rolledBack).toMatchObject({ status: 200, json: { id: 'built_in', source: 'banks-db 0.12.0' } });
  expect(await readBinData()).toMatchObject({ dataset: { origin: 'built_in' }, previous: { source: 'first.csv' } });
  expect((await admin.call('POST', '/bin/rollback?to=built_in')).status).toBe(409);
  expect((await admin.call('POST', '/bin/rollback')).json).toMatchObject({ source: 'first.csv' });
  expect((await readBinData()).dataset).toMatchObject({ origin: 'import', source: 'first.csv' });

  // A prefix of 6 digits covers 100 BINs of 8 digits. One of them has its own row, with changed facts.
  const next = fileOf(rowOf('400012', 'Around'), rowOf('40001234', 'Other'), rowOf('51000000', 'New', 'SE'));
  const second = await upload(gzipSync(next), 'asOf=2026-11-02&source=second', 'application/gzip');
  const { before } = second.json.bins as { before: number };
  expect(second.json.bins).toEqual({ before, after: before + 100, added: 100, removed: 0, changed: 1 });
  const same = await upload(fileOf(rowOf('40001234', 'First')), 'asOf=2026-11-03&source=same');
  expect(same.json.bins).toEqual({ before, after: before, added: 0, removed: 0, changed: 0 });
  // There is one upload at a time.
  expect((await importUpload(second.json.id)).status).toBe(404);
  expect((await admin.call('DELETE', `/bin/uploads/${same.json.id}`)).status).toBe(204);
  expect((await admin.call('GET', `/bin/uploads/${same.json.id}`)).status).toBe(404);

  const third = await upload(fileOf(rowOf('51000000', 'New', 'SE')), 'asOf=2026-11-04&source=third');
  expect((await admin.call('GET', `/bin/uploads/${third.json.id}`)).json).toEqual(third.json);
  expect(third.json.bins).toEqual({ before, after: before, added: 1, removed: 1, changed: 0 });
  await importUpload(third.json.id);
  expect(await admin.call('POST', '/bin/rollback', {})).toMatchObject({ status: 200, json: { source: 'first.csv' } });
  expect((await readBinData()).dataset).toMatchObject({ source: 'first.csv' });
  const { json } = await admin.call('GET', '/audit?limit=20');
  const entries = (json.items as { event: string; facts: { source?: string } }[])
    .filter(({ event }) => event.startsWith('bin_dataset'))
    .map(({ event, facts }) => ({ event, facts }));
  const factsOf = (source: string, rows = 1) => ({ source, rows, bad: 0 });
  expect(entries).toEqual([
    { event: 'bin_dataset.rolled_back', facts: { from: 'third', to: 'first.csv' } },
    { event: 'bin_dataset.imported', facts: factsOf('third') },
    { event: 'bin_dataset.uploaded', facts: factsOf('third') },
    { event: 'bin_dataset.discarded', facts: factsOf('same') },
    { event: 'bin_dataset.uploaded', facts: factsOf('same') },
    { event: 'bin_dataset.uploaded', facts: factsOf('second', 3) },
    { event: 'bin_dataset.rolled_back', facts: { from: 'banks-db 0.12.0', to: 'first.csv' } },
    // The refused rollback has two entries: one at its start, and one for its failure.
    { event: 'bin_dataset.rolled_back', facts: { from: 'banks-db 0.12.0', to: 'first.csv' } },
    { event: 'bin_dataset.rolled_back', facts: { from: 'banks-db 0.12.0', to: 'first.csv' } },
    { event: 'bin_dataset.rolled_back', facts: { from: 'first.csv', to: 'banks-db 0.12.0' } },
    { event: 'bin_dataset.imported', facts: factsOf('first.csv') },
    { event: 'bin_dataset.uploaded', facts: factsOf('first.csv') },
  ]);
});

test('rows that contradict each other are counted before the import, by the API and on the page', async () => {
  const rows = [rowOf('40001234', 'First'), rowOf('40001234', 'Second'), rowOf('400012345', 'Long')];
  const { json } = await upload(fileOf(...rows), 'asOf=2026-11-01&source=conflicts.csv');
  expect(json).toMatchObject({
    rows: 2,
    badRows: 1,
    reasons: [{ reason: 'more_than_8_digits', rows: 1, line: 4, detail: expect.stringMatching(/^no lookup/) }],
    conflicts: { count: 1, ranges: [{ lines: [2, 3] }] },
  });
  const { body } = await agent.get(`${site.url}/admin/bin/uploads/${json.id}`);
  expect(body).toMatch(/BINs with conflicting rows<\/dt><dd>.*1.*<\/dd>/);
  expect(body).toContain('<li>Lines 2 and 3</li>');
  expect(body).toContain('Line 4: no lookup can use it');
  expect((await admin.call('DELETE', `/bin/uploads/${json.id}`)).status).toBe(204);
});

test('values that are not understood are counted before the import, by the API and on the page', async () => {
  const { json } = await upload(
    'low,country,kind\n40001234,US,LOCAL\n40001235,US,DEBIT\n',
    'asOf=2026-11-01&source=words.csv&columns=start%3Dlow,country%3Dcountry,type%3Dkind',
  );
  expect(json).toMatchObject({ notUnderstood: [{ column: 'kind', rows: 1, values: [{ value: 'LOCAL', rows: 1 }] }] });
  const { body } = await agent.get(`${site.url}/admin/bin/uploads/${json.id}`);
  expect(body).toMatch(/<bdi>kind<\/bdi>: 1 row, most often\s+<bdi>LOCAL<\/bdi> \(1\)/);
  expect((await admin.call('DELETE', `/bin/uploads/${json.id}`)).status).toBe(204);
});

test('the second of two simultaneous rollbacks is refused', async () => {
  for (const source of ['one.csv', 'two.csv']) {
    const { json } = await upload(fileOf(rowOf('40001234', source)), `asOf=2026-11-01&source=${source}`);
    await admin.call('POST', `/bin/uploads/${json.id}/import`, {});
  }
  const { agent: other } = await signIn(site, 'admin@example.test');
  const [mine, theirs] = await Promise.all([agent, other].map((one) => one.get(`${site.url}/admin/bin/rollback`)));
  const { previous } = (await readBinData()) as { previous: { id: string } };
  const done = await agent.submit(mine as Page, {}, { button: 'Roll back' });
  expect(done.body).toContain('Rolled back to one.csv.');
  const late = await other.submit(theirs as Page, {}, { button: 'Roll back' });
  expect(late.status).toBe(409);
  expect(late.body).toContain('The BIN data has changed since you opened this page.');
  // The page now asks about what would happen now.
  expect(late.body).toContain('Lookups use two.csv (as of 2026-11-01, 1 row) again');
  expect((await readBinData()).dataset).toMatchObject({ source: 'one.csv' });

  const byApi = await admin.call('POST', `/bin/rollback?to=${previous.id}`);
  expect([byApi.status, byApi.json.code]).toEqual([409, 'version_conflict']);
  expect((await readBinData()).dataset).toMatchObject({ source: 'one.csv' });
  const agreed = await other.submit(late, {}, { button: 'Roll back' });
  expect(agreed.body).toContain('Rolled back to two.csv.');
  const again = await admin.call('POST', `/bin/rollback?to=${previous.id}`);
  expect([again.status, again.json]).toMatchObject([200, { id: previous.id, source: 'one.csv' }]);
});

test('an upload is neither shown nor imported once the data in use has changed', async () => {
  const firstUpload = await upload(fileOf(rowOf('40001234', 'One')), 'asOf=2026-11-01&source=one.csv');
  await admin.call('POST', `/bin/uploads/${firstUpload.json.id}/import`, {});
  const laterUpload = await upload(fileOf(rowOf('40001234', 'Late')), 'asOf=2026-11-02&source=late.csv');
  const reviewUrl = `${site.url}/admin/bin/uploads/${laterUpload.json.id}`;
  const reviewPage = await agent.get(reviewUrl);
  expect(reviewPage.body).toContain('one.csv');
  await admin.call('POST', '/bin/rollback', {});
  const { dataset } = await readBinData();
  for (const method of ['GET', 'POST']) {
    const path = `/bin/uploads/${laterUpload.json.id}${method === 'POST' ? '/import' : ''}`;
    expect(await admin.call(method, path)).toMatchObject({ status: 409, json: { code: 'version_conflict' } });
  }
  expect((await agent.get(reviewUrl)).status).toBe(409);
  const refused = await agent.submit(reviewPage, {}, { button: 'Import 1 row' });
  expect([refused.status, refused.body.includes('Upload the file again.')]).toEqual([409, true]);
  expect((await readBinData()).dataset).toEqual(dataset);
  expect((await admin.call('DELETE', `/bin/uploads/${laterUpload.json.id}`)).status).toBe(204);
});

/** By the form of the page, with the fields given. */
async function sendForm(fields: Record<string, string>, file?: string) {
  const { json: session } = await getJson(agent, `${site.url}/session`);
  const form = new FormData();
  const all = { _csrf: String(session.csrfToken), asOf: '2026-11-01', source: '', licence: '', columns: '', ...fields };
  for (const [name, value] of Object.entries(all)) form.append(name, value);
  form.append('file', new Blob([file ?? '']), file === undefined ? '' : 'rows.csv');
  const headers = { ...ACCEPT_HTML, cookie: agent.cookies.header(site.url), origin: site.url };
  const response = await fetch(`${site.url}/admin/bin/import`, {
    ...{ method: 'POST', headers, body: form, redirect: 'manual' },
  });
  const location = response.headers.get('location');
  if (location?.includes('/import?form=')) {
    const { status, body } = await agent.get(new URL(location, site.url).href);
    return { status, location, body };
  }
  return { status: response.status, location, body: await response.text() };
}

test('a form that is sent again with another file uses that file', async () => {
  const uploadFile = async (bank: string) => {
    const { status, location } = await sendForm({ _form: 'f1' }, fileOf(rowOf('40001234', bank)));
    expect(status).toBe(303);
    return location;
  };
  const [first, second] = [await uploadFile('One'), await uploadFile('Two')];
  expect(second).not.toBe(first);
  expect((await agent.get(new URL(second ?? '', site.url).href)).status).toBe(200);
});

test('a double click on the button imports once, and leads to the same page', async () => {
  const { json } = await upload(fileOf(rowOf('40001234', 'Twice')), 'asOf=2026-11-01&source=twice.csv');
  const page = await agent.get(`${site.url}/admin/bin/uploads/${json.id}`);
  const form = new URLSearchParams();
  for (const name of ['_csrf', '_form'])
    form.set(name, page.body.match(new RegExp(`name="${name}" value="([^"]+)"`))?.[1] ?? '');
  const headers = { ...ACCEPT_HTML, ...FORM_BODY, cookie: agent.cookies.header(site.url), origin: site.url };
  const click = () => sendRequest(`${page.url}/import`, { method: 'POST', headers, body: form.toString() });
  const responses = await Promise.all([click(), click()]);
  expect(responses.map(({ status }) => status)).toEqual([303, 303]);
  expect(responses[0]?.headers.location).toBe(responses[1]?.headers.location);

  const { json: trail } = await admin.call('GET', '/audit?limit=3');
  const entries = trail.items as { event: string; outcome?: string; facts: { source?: string } }[];
  const imports = entries.filter(
    ({ event, facts }) => event === 'bin_dataset.imported' && facts.source === 'twice.csv',
  );
  expect(imports.map(({ outcome }) => outcome ?? 'done')).toEqual(['done']);
});

test('a form does not repeat card numbers', async () => {
  for (const name of ['source', 'licence', 'columns']) {
    const value = name === 'columns' ? `start=${CARD},country=ISO` : CARD;
    const { status, body } = await sendForm({ [name]: value, asOf: '' }, fileOf(rowOf('40001234', 'B')));
    expect([status, body.includes('Remove the card number.'), body.includes(CARD)]).toEqual([400, true, false]);
  }
  const columns = await upload('LOW,ISO\n', `asOf=2026-11-01&source=x&columns=start=${CARD},country=ISO`);
  expect([columns.status, JSON.stringify(columns.json).includes(CARD)]).toEqual([400, false]);
});

test('refuses unusable files with the cause, without repeating a card number', async () => {
  const query = 'asOf=2026-11-01&source=x';
  const uploadAndRead = async (body: string | Buffer, queryOfUpload = query) => {
    const { status, json } = await upload(body, queryOfUpload);
    expect(JSON.stringify(json)).not.toContain(CARD);
    return [status, json.detail];
  };
  expect(await uploadAndRead('a,b\n1,2\n')).toEqual([
    400,
    expect.stringContaining('not the header of a known data set'),
  ]);
  expect(await uploadAndRead('')).toEqual([400, expect.stringContaining('is empty')]);
  expect(await uploadAndRead(fileOf(rowOf(CARD, 'Bank')))).toEqual([400, expect.stringContaining('no usable row')]);
  expect(await uploadAndRead(gzipSync(fileOf(rowOf('40001234', 'B'))).subarray(0, 40))).toEqual([
    400,
    expect.stringContaining('damaged'),
  ]);
  expect((await uploadAndRead('', 'asOf=2026-02-31&source=x'))[0]).toBe(400);
  expect((await uploadAndRead('', `asOf=2026-02-01&source=${CARD}`))[0]).toBe(400);
  const columns = await upload('LOW;x\n', `${query}&columns=start=LOW`);
  expect(JSON.stringify(columns.json.errors)).toContain('Name at least the columns of start and country.');
  const headersOfLargeFile = {
    ...(await credentials()),
    'content-type': 'text/csv',
    'content-length': String(65 * 2 ** 20),
  };
  const { status } = await sendRequest(`${site.url}/admin/api/bin/uploads?${query}`, {
    method: 'POST',
    headers: headersOfLargeFile,
  });
  expect(status).toBe(413);
});

test('a form with a file needs its CSRF token before the file, and keeps the entered values', async () => {
  const { json: session } = await getJson(agent, `${site.url}/session`);
  const validFields = {
    _csrf: String(session.csrfToken),
    asOf: '2026-11-01',
    source: '',
    licence: 'mine',
    columns: '',
  };
  expect((await sendForm({ ...validFields, _csrf: 'x' }, fileOf(rowOf('40001234', 'B')))).status).toBe(403);
  expect((await sendForm({ ...validFields, _csrf: 'x' }, 'x'.repeat(3 * 2 ** 20))).status).toBe(403);
  const noFile = await sendForm(validFields);
  expect([noFile.status, noFile.body.includes('Choose a file.'), noFile.body.includes('value="mine"')]).toEqual([
    ...[400, true, true],
  ]);
  const noRows = await sendForm(validFields, 'a,b\n');
  expect([noRows.status, noRows.body.includes('not the header of a known data set')]).toEqual([400, true]);
  // The section with the field for columns, which the advice names, is open.
  expect(noRows.body).toMatch(/<details open>\s*<summary>Advanced/);
  const done = await sendForm(validFields, fileOf(rowOf('40001234', 'B')));
  expect([done.status, done.location]).toEqual([303, expect.stringMatching(/\/admin\/bin\/uploads\/[\w-]+/)]);
});

test('an interrupted upload stores nothing, and the next one is checked', async () => {
  const { cookie = '', 'x-csrf-token': csrf = '' } = await credentials();
  const head = (type: string) => ({ cookie, 'x-csrf-token': csrf, 'content-type': type, 'content-length': '100000' });
  const part = '--b\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n';
  const form = `--b\r\nContent-Disposition: form-data; name="asOf"\r\n\r\n2026-11-01\r\n${part}${HEADER}\n`;
  for (const [path, headers, start] of [
    ['api/bin/uploads?asOf=2026-11-01&source=x', head('text/csv'), HEADER],
    ['bin/import', head('multipart/form-data; boundary=b'), form],
  ] as const) {
    const outgoing = request(`${site.url}/admin/${path}`, { method: 'POST', headers });
    outgoing.on('error', () => undefined);
    outgoing.write(start);
    // A second upload is refused while the first one is being read.
    const isFirstBeingRead = async () =>
      (await upload(fileOf(rowOf('40001234', 'B')), 'asOf=2026-11-01&source=x')).status === 503;
    await until(isFirstBeingRead);
    outgoing.destroy();
    await until(async () => !(await isFirstBeingRead()));
  }
});

test('in the browser: file, look at the rejected row, import with three clicks, and roll back', async () => {
  const before = await upload(fileOf(rowOf('40001234', 'Before')), 'asOf=2026-11-01&source=before.csv');
  await admin.call('POST', `/bin/uploads/${before.json.id}/import`, {});
  const page = await openPage();
  await page.goto(`${site.url}/sign-in`);
  await completeProviderSignIn(page, site, 'admin@example.test');
  await page.goto(`${site.url}/admin/bin`);
  await page.getByRole('link', { name: 'Import BIN data' }).click();
  await page.getByLabel('Date of the data').fill('2026-11-20');
  const rows = [rowOf('40001234', 'After'), rowOf(CARD, 'Whole number'), rowOf('51000000', 'New', 'SE')];
  const buffer = Buffer.from(fileOf(...rows));
  await page.getByLabel('File', { exact: true }).setInputFiles({ name: 'after.csv', mimeType: 'text/csv', buffer });
  await page.getByRole('button', { name: 'Check file' }).click();
  await page.getByRole('heading', { name: 'Check the new BIN data' }).waitFor();
  const shown = await page.locator('main').innerText();
  expect(shown).toContain('Line 3: the range does not begin and end with 6 to 11 digits');
  expect(shown).not.toContain(CARD);
  expect(await page.locator('dl').last().innerText()).toMatch(/BINs added\n1\nBINs removed\n0\nBINs changed\n1$/);
  await page.getByRole('button', { name: 'Import 2 rows' }).click();
  await page.getByText('Imported 2 rows of after.csv.').waitFor();
  expect((await readBinData()).dataset).toMatchObject({ source: 'after.csv', badRows: 1 });

  await page.getByRole('link', { name: 'Roll back…' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Roll back' }).click();
  await page.getByText('Rolled back to before.csv.').waitFor();
  expect((await readBinData()).dataset).toMatchObject({ source: 'before.csv' });
});
