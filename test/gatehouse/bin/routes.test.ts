/** `GET /bin/{bin}` and `POST /bin` for browsers and for programs. */

import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { createBinService } from '../../../src/bin-lookup-service/service.ts';
import { testCards } from '../../../src/shared/bin/test-cards.ts';
import { sharedAssets } from '../../../src/shared/pages/assets.ts';
import { getJson, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { withoutRandomTexts } from '../../support/random-texts.ts';
import { ACCEPT_HTML, ACCEPT_JSON, FORM_BODY, JSON_BODY, sendRequest } from '../../support/send-request.ts';

let site: TestSite;
let cookie: string;
let csrf: string;
beforeAll(async () => {
  site = await startSite({ sandbox: { binService: createBinService({ testData: testCards() }) } });
  const { agent } = await signIn(site);
  cookie = agent.cookies.header(site.url);
  csrf = String((await getJson(agent, `${site.url}/session`)).json.csrfToken);
});
afterEach(() => site.sandbox.faults.clear());
afterAll(() => site.close());

const get = (bin: string) => sendRequest(`${site.url}/bin/${bin}`, { headers: { ...ACCEPT_JSON, cookie } });
const post = (bins: unknown) =>
  sendRequest(`${site.url}/bin`, {
    method: 'POST',
    headers: { ...ACCEPT_JSON, ...JSON_BODY, cookie, 'x-csrf-token': csrf },
    body: JSON.stringify({ bins }),
  });
const postForm = (body: string) =>
  sendRequest(`${site.url}/bin`, {
    method: 'POST',
    headers: { ...ACCEPT_HTML, ...FORM_BODY, cookie },
    body: `_csrf=${csrf}&${body}`,
  });
const getPage = (text: string) => sendRequest(`${site.url}/bin?bin=${text}`, { headers: { ...ACCEPT_HTML, cookie } });
const countCalls = () => site.sandbox.requests.latest('bin-lookup-service').length;

test('responds to a form with a redirect to the result, whatever its Accept header is', async () => {
  const headers = { accept: '*/*', ...FORM_BODY, cookie };
  const posted = await sendRequest(`${site.url}/bin`, { method: 'POST', headers, body: `_csrf=${csrf}&bin=45717360` });
  expect([posted.status, posted.headers.location]).toEqual([303, `${site.url}/bin?bin=45717360`]);
});

describe('GET /bin', () => {
  test('shows the empty form without a BIN', async () => {
    const page = await sendRequest(`${site.url}/bin`, { headers: { ...ACCEPT_HTML, cookie } });
    expect([page.status, page.body.includes('name="bin"')]).toEqual([200, true]);
  });
});

test('marks refusals of Gatehouse with Proxy-Status, and no other responses', async () => {
  for (const path of ['/bin/45717360', '/threads/current']) {
    const refused = await sendRequest(site.url + path, { headers: ACCEPT_JSON });
    expect([refused.status, refused.headers['proxy-status']]).toEqual([401, 'gatehouse; error=http_request_denied']);
    const served = await sendRequest(site.url + path, { headers: { ...ACCEPT_JSON, cookie } });
    expect([served.status, served.headers['proxy-status']]).toEqual([200, undefined]);
  }
});

describe('GET /bin/{bin}', () => {
  test('returns the record with its source, date and matched digits', async () => {
    const { status, body, headers } = await get('45717360');
    expect(status).toBe(200);
    expect(headers['content-type']).toBe('application/json; charset=utf-8');
    expect(JSON.parse(body)).toEqual({
      number: { length: 16, luhn: true },
      scheme: 'visa',
      type: 'debit',
      brand: 'Visa/Dankort',
      prepaid: false,
      country: {
        numeric: '208',
        alpha2: 'DK',
        name: 'Denmark',
        emoji: '🇩🇰',
        currency: 'DKK',
        latitude: 56,
        longitude: 10,
      },
      bank: { name: 'Jyske Bank', url: 'www.jyskebank.dk', phone: '+4589893300', city: 'Hjørring' },
    });
    expect(headers['gatehouse-source']).toMatch(/^(service|cache)$/);
    expect(headers['gatehouse-as-of']).toMatch(/^\d{4}-\d\d-\d\d$/);
    expect(headers['gatehouse-digits-matched']).toBe('8');
  });

  test('returns the record from the cache the second time, without a call', async () => {
    await get('45717360');
    const callsBefore = countCalls();
    const { headers } = await get('45717360');
    expect([headers['gatehouse-source'], countCalls()]).toEqual(['cache', callsBefore]);
  });

  test.each([
    '1',
    '45717',
    '457173601',
    '4571736012',
    '4571736012345674',
    '457173%20',
    '4571%207360',
    '4571-7360',
    '45.71e5',
    '1e6',
    '0x457173',
    '%EF%BC%94%EF%BC%95%EF%BC%97%EF%BC%91%EF%BC%97%EF%BC%93',
    '%D9%A4%D9%A5%D9%A7%D9%A1%D9%A7%D9%A3',
    'abcdef',
    '%00457173',
    '457173%0A',
    '+457173',
    '-457173',
    '45717x',
    '%2534571736',
  ])('R85 refuses %s with invalid_bin before any call, and does not repeat it', async (digits) => {
    const callsBefore = countCalls();
    const { status, body, headers } = await get(digits);
    expect([status, JSON.parse(body).code]).toEqual([400, 'invalid_bin']);
    expect(countCalls()).toBe(callsBefore);
    const plain = decodeURIComponent(digits.replace('%25', '%'));
    if (plain.length > 3) expect(withoutRandomTexts(body + headers.location)).not.toContain(plain);
  });

  test('distinguishes an unknown BIN from an unavailable service', async () => {
    expect(JSON.parse((await get('000000')).body)).toMatchObject({ code: 'bin_not_found', status: 404 });
    site.sandbox.faults.set({ listener: 'bin-lookup-service', kind: 'error' });
    const down = await get('000001');
    expect([down.status, JSON.parse(down.body).code]).toEqual([503, 'bin_service_unavailable']);
    expect(Number(down.headers['retry-after'])).toBeGreaterThan(0);
    // The built-in data set still serves its BINs.
    const known = await get('371449');
    expect(known.status).toBe(200);
  });

  test('needs a session', async () => {
    const { status, body } = await sendRequest(`${site.url}/bin/45717360`, { headers: ACCEPT_JSON });
    expect([status, JSON.parse(body).code]).toEqual([401, 'sign_in_required']);
  });
});

test('marks a test card in a response, in a list and on a page', async () => {
  for (const digits of ['424242', '45717360'])
    expect((await get(digits)).headers['gatehouse-test-data']).toBe(digits === '424242' ? 'true' : undefined);
  const { results } = JSON.parse((await post(['424242', '45717360'])).body);
  expect([results[0].testData, results[1].testData]).toEqual([true, undefined]);
  const pages = await Promise.all(['424242', '45717360'].map(getPage));
  expect(pages.map(({ body }) => body.includes('This is a test card'))).toEqual([true, false]);
});

describe('POST /bin with JSON', () => {
  test('returns a result for each item in order, and does not repeat a refused value', async () => {
    const { status, body } = await post([
      '45717360',
      '4571736012345674',
      '000000',
      457173,
      null,
      ['457173'],
      '45717360',
      '4571 73',
    ]);
    expect(status).toBe(200);
    const { results } = JSON.parse(body);
    expect(results).toHaveLength(8);
    expect(results[0]).toMatchObject({
      bin: '45717360',
      record: { scheme: 'visa' },
      digitsMatched: 8,
      asOf: expect.stringMatching(/^\d{4}-/),
    });
    expect(results[0].source).toMatch(/^(service|cache)$/);
    expect(results[6]).toMatchObject({ bin: '45717360' });
    expect(results[2]).toEqual({
      bin: '000000',
      problem: {
        type: `${site.url}/problems/bin_not_found`,
        title: 'Nothing is known about this BIN',
        status: 404,
        code: 'bin_not_found',
      },
    });
    const refused = {
      problem: { type: `${site.url}/problems/invalid_bin`, title: 'Not a BIN', status: 400, code: 'invalid_bin' },
    };
    for (const index of [1, 3, 4, 5, 7]) expect(results[index]).toEqual(refused);
  });

  test('accepts 1 to 1,000 BINs', async () => {
    const callsBefore = countCalls();
    const many = Array.from({ length: 1_000 }, (_, index) => (index % 2 ? '45717360' : 'x'));
    const { status, body } = await post(many);
    expect(status).toBe(200);
    const { results } = JSON.parse(body);
    expect(results.map((result: { bin?: string }) => result.bin)).toEqual(
      many.map((bin) => (bin === 'x' ? undefined : bin)),
    );
    // All entries are the same BIN, which is looked up once.
    expect(countCalls() - callsBefore).toBeLessThanOrEqual(1);
    for (const bins of [[...many, '45717360'], [], '45717360', undefined, { 0: '45717360' }]) {
      const refused = await post(bins);
      expect([refused.status, JSON.parse(refused.body).code]).toEqual([400, 'invalid_request']);
      expect(refused.body).not.toContain('45717360');
    }
  });

  test.each(['', 'null', '"45717360"', '[]', '{"bins":', 'bins=45717360'])('a body of %j is refused', async (body) => {
    const refused = await sendRequest(`${site.url}/bin`, {
      method: 'POST',
      headers: { ...ACCEPT_JSON, ...JSON_BODY, cookie, 'x-csrf-token': csrf },
      body,
    });
    expect([refused.status, JSON.parse(refused.body).code]).toEqual([400, 'invalid_request']);
    expect(refused.body).not.toContain('45717360');
  });
});

describe('POST /bin with the form of the page', () => {
  test('draws the card', async () => {
    const posted = await postForm('bin=45717360');
    expect([posted.status, posted.headers.location]).toEqual([303, `${site.url}/bin?bin=45717360`]);

    const { status, body, headers } = await getPage('45717360');
    expect(status).toBe(200);
    expect(headers['content-type']).toBe('text/html; charset=utf-8');
    expect(body).toContain('Jyske Bank');
    expect(body).toContain(`${sharedAssets().path}/flags/dk.svg" alt=""`);
    expect(body).toMatch(/role="img" aria-label="Card of Jyske Bank/);
  });

  test.each([
    'bin=4571736012345674',
    'bin=4571+7360+1234+5674',
    'bin=4571',
    'bin=4571+7360',
    'bin=4571-7360',
    'bin=',
    '',
    'bin=45717360&bin=45717360',
    'bin[]=45717360',
    'bin=%EF%BC%94%EF%BC%95%EF%BC%97%EF%BC%91%EF%BC%97%EF%BC%93',
  ])('R85 refuses "%s" next to the field, and does not show it on the page', async (form) => {
    const callsBefore = countCalls();
    const posted = await postForm(form);
    expect([posted.status, posted.headers.location]).toEqual([303, `${site.url}/bin?bin=`]);
    const { status, body } = await getPage('');
    expect(status).toBe(400);
    expect(body).toContain('These are not the first digits of a card');
    expect(body).toContain('aria-invalid="true"');
    expect(body).not.toMatch(/name="bin"[^>]*value=|value=[^>]*name="bin"/);
    expect(withoutRandomTexts(body)).not.toContain('4571');
    expect(countCalls()).toBe(callsBefore);
  });

  test.each(['4571736012345674', '4571', '45717360x', ''])(
    'R85 refuses the query "%s" as it refuses the form, without a lookup',
    async (text) => {
      const callsBefore = countCalls();
      const { status, body } = await getPage(text);
      expect([status, body.includes('4571')]).toEqual([400, false]);
      expect(countCalls()).toBe(callsBefore);
    },
  );

  test('R136 a page that is loaded ahead makes no lookup', async () => {
    const callsBefore = countCalls();
    const headers = { ...ACCEPT_HTML, cookie, 'sec-purpose': 'prefetch' };
    expect((await sendRequest(`${site.url}/bin?bin=000004`, { headers })).status).toBe(503);
    expect(countCalls()).toBe(callsBefore);
  });

  test('says if no facts are known, or the service is unavailable', async () => {
    const unknown = await getPage('000000');
    expect([unknown.status, unknown.body.includes('Nothing is known about these digits')]).toEqual([404, true]);
    site.sandbox.faults.set({ listener: 'bin-lookup-service', kind: 'error' });
    const down = await getPage('000002');
    expect([down.status, down.body.includes('The BIN lookup service does not respond')]).toEqual([503, true]);
    expect(Number(down.headers['retry-after'])).toBeGreaterThan(0);
    expect(down.body).toContain('aria-invalid="false"');
  });
});
