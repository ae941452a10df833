/** R122: a search of the log for `instance` or `X-Request-Id` of a problem finds its line. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type BinSite, startBinSite } from '../../bin-lookup-service/site.ts';
import { startSite, type TestSite } from '../../support/gatehouse.ts';
import { sendRaw } from '../../support/raw-http.ts';
import { ACCEPT_JSON, sendRequest } from '../../support/send-request.ts';

interface ProblemIds {
  id: string;
  instance: string | undefined;
}

/** @param logs the lines of the log */
function assertLogged({ id, instance }: ProblemIds, logs: readonly string[]): void {
  const line = logs
    .map((text) => JSON.parse(text) as Record<string, unknown>)
    .find((fields) => fields.requestId === id);
  expect(line).toBeDefined();
  if (instance !== undefined) expect(JSON.stringify(line)).toContain(instance.replace('urn:uuid:', ''));
}

const HEX = '6bf0b9c2d1e84f5aa3c7e9d0b1f2a3c4';
const UUID = '6bf0b9c2-d1e8-4f5a-a3c7-e9d0b1f2a3c5';

describe('the problems of Gatehouse', () => {
  let site: TestSite;
  beforeAll(async () => {
    site = await startSite({ env: { TRUSTED_PROXIES: '127.0.0.1' } });
  });
  afterAll(() => site.close());

  test.each([
    ['none', undefined, /^urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/],
    ['a UUID', UUID, `urn:uuid:${UUID}`],
    ['a UUID in capitals', UUID.toUpperCase(), `urn:uuid:${UUID.toUpperCase()}`],
    ['32 hexadecimal digits, as nginx generates them', HEX, 'urn:uuid:6bf0b9c2-d1e8-4f5a-a3c7-e9d0b1f2a3c4'],
    ['any other id', 'request-of-the-proxy-7', undefined],
  ])('R122 an id of the proxy: %s', async (_name, sent, expected) => {
    const { headers, body } = await sendRequest(`${site.url}/nothing`, {
      headers: { ...ACCEPT_JSON, ...(sent && { 'x-request-id': sent }) },
    });
    const { instance } = JSON.parse(body);
    if (sent) expect(headers['x-request-id']).toBe(sent);
    if (expected instanceof RegExp) expect(instance).toMatch(expected);
    else expect(instance).toBe(expected);
    assertLogged({ id: String(headers['x-request-id']), instance }, site.logs());
  });

  test.each([
    ['bytes that are not HTTP', 'nonsense\r\n\r\n', 400],
    ['a tunnel', 'CONNECT example.test:443 HTTP/1.1\r\nHost: example.test\r\n\r\n', 405],
    ['a head that is too large', `GET / HTTP/1.1\r\nHost: x\r\nX-Long: ${'x'.repeat(17_000)}\r\n\r\n`, 431],
    ['a target that is too long', `GET /${'x'.repeat(9_000)} HTTP/1.1\r\nHost: x\r\n\r\n`, 414],
    ['too many parameters', `GET /?${'a&'.repeat(101)} HTTP/1.1\r\nHost: x\r\n\r\n`, 400],
  ])('R122 a refusal before any route: %s', async (_name, bytes, status) => {
    for (const url of [site.url, site.managementUrl]) {
      const response = await sendRaw(url, bytes);
      expect(response.status).toBe(status);
      const { instance } = JSON.parse(response.rest);
      assertLogged({ id: response.headers.get('x-request-id')?.[0] ?? '', instance }, site.logs());
    }
  });
});

describe('the problems of the BIN lookup service', () => {
  let site: BinSite;
  beforeAll(async () => {
    site = await startBinSite();
  });
  afterAll(() => site.close());

  test.each(['/nothing/here', '/45717', '/999999', '/account/nothing'])('R122 a refusal of %s', async (path) => {
    const { headers, body } = await sendRequest(`${site.url}${path}`, { headers: ACCEPT_JSON });
    assertLogged({ id: String(headers['x-request-id']), instance: JSON.parse(body).instance }, site.logs());
  });

  test('R122 a refusal before any route', async () => {
    const response = await sendRaw(site.url, 'nonsense\r\n\r\n');
    const { instance } = JSON.parse(response.rest);
    assertLogged({ id: response.headers.get('x-request-id')?.[0] ?? '', instance }, site.logs());
  });
});
