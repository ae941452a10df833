/** A browser whose request is refused before the app sees it gets a page that says what to do. Programs get JSON. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parsePublicUrl } from '../../../src/shared/config/rules.ts';
import { bindPorts, closeServer } from '../../../src/shared/http/listeners.ts';
import { problemSchema } from '../../../src/shared/http/problem-document.ts';
import { createRefusalPage } from '../../../src/shared/pages/refusal-page.ts';
import { startBinSite } from '../../bin-lookup-service/site.ts';
import { startSite, startWithoutSandbox, type TestGatehouse } from '../../support/gatehouse.ts';
import { freePort } from '../../support/ports.ts';
import { sendRaw } from '../../support/raw-http.ts';
import { ACCEPT_HTML, ACCEPT_JSON, sendRequest } from '../../support/send-request.ts';

const cookies = (bytes: number) => `board=${'b'.repeat(bytes - 6)}; small=1; 4571736012345674=${'c'.repeat(200)}`;

const SERVERS: [string, () => Promise<{ url: string; close(): Promise<void> }>][] = [
  ['Gatehouse', () => startSite({ env: { OPERATOR_NAME: 'Board & Co', SUPPORT_CONTACT: 'help@example.test' } })],
  ['the BIN lookup service', () => startBinSite({ OPERATOR_NAME: 'Board & Co', SUPPORT_CONTACT: 'help@example.test' })],
];

describe.each(SERVERS)('%s', (_name, start) => {
  let site: { url: string; close(): Promise<void> };
  beforeAll(async () => {
    site = await start();
  });
  afterAll(() => site?.close());

  test.each<[string, string, Record<string, string>, number, string]>([
    ['too many cookies', '/', { cookie: cookies(17_000) }, 431, 'Delete the cookies of this host'],
    ['more cookies than the parser takes', '/', { cookie: cookies(40_000) }, 431, 'Delete the cookies of this host'],
    ['another header that is too large', '/', { 'x-long': 'x'.repeat(17_000) }, 431, 'Switch off extensions'],
    ['an address that is too long', `/${'x'.repeat(9_000)}`, {}, 414, 'The address is too long'],
    ['too many parameters', `/?${'&'.repeat(500)}`, {}, 400, 'Something in the address'],
    ['an expectation', '/', { expect: 'more' }, 417, 'Something in the address'],
  ])('%s', async (_what, path, headers, status, words) => {
    const page = await sendRequest(site.url + path, { headers: { ...ACCEPT_HTML, ...headers } });
    expect([page.status, page.headers['content-type']]).toEqual([status, 'text/html; charset=utf-8']);
    expect(page.headers['content-security-policy']).toMatch(/^default-src 'none'; style-src 'sha256-/);
    expect(page.headers['cache-control']).toBe('no-store');
    expect(page.body).toContain(words);
    expect(page.body).toContain('<bdi>Board &amp; Co</bdi>');
    expect(page.body).toContain('<a href="/">Go to the start page</a>');
    expect(page.body).toContain('<a href="mailto:help@example.test">');
    expect(page.body).not.toMatch(/\s(src|style|on\w+)=|\/assets\//);

    const data = await sendRequest(site.url + path, { headers: { ...ACCEPT_JSON, ...headers } });
    expect([data.status, data.headers['content-type']]).toEqual([status, 'application/problem+json; charset=utf-8']);
    expect(JSON.parse(data.body).status).toBe(status);
    const any = await sendRequest(site.url + path, { headers: { accept: '*/*', ...headers } });
    expect(any.headers['content-type']).toBe('application/problem+json; charset=utf-8');
  });

  test('names the largest cookies and their sizes, and no name that could be a card number', async () => {
    const { body } = await sendRequest(site.url, { headers: { ...ACCEPT_HTML, cookie: cookies(17_000) } });
    expect(body).toContain('<li><code>board</code>, 17,000 bytes</li>');
    expect(body).not.toMatch(/bbb|ccc|small|457173/);
    expect(body).toContain(`<bdi>${new URL(site.url).host}</bdi>`);
    expect(body).toContain('<a href="">Try again</a>');
  });

  test('bytes that are not HTTP', async () => {
    const page = await sendRaw(site.url, 'GET / HTTP/9.9\r\nHost: x\r\nAccept: text/html,*/*;q=0.8\r\n\r\n');
    expect([page.status, page.headers.get('content-type')]).toEqual([400, ['text/html; charset=utf-8']]);
  });
});

test('overload', async () => {
  const eventLoopMonitor = { isBusy: () => true, stop: () => undefined };
  const gatehouse: TestGatehouse = await startWithoutSandbox({ apps: [], eventLoopMonitor });
  try {
    const { status, headers, body } = await sendRequest(`${gatehouse.url}/`, { headers: ACCEPT_HTML });
    expect([status, headers['retry-after']]).toEqual([503, '2']);
    expect(body).toContain('We are overloaded');
    expect(body).toContain('<a href="">Try again</a>');
    // A link would send a GET, to which the address of a form may respond with 405.
    const ofForm = await sendRequest(`${gatehouse.url}/`, { method: 'POST', headers: ACCEPT_HTML });
    expect(ofForm.body).toContain('We are overloaded');
    expect(ofForm.body).not.toContain('Try again');
  } finally {
    await gatehouse.close();
  }
});

test('a start that takes longer than requests wait', async () => {
  const port = await freePort();
  const { publicUrl } = parsePublicUrl(`http://127.0.0.1:${port}`);
  if (!publicUrl) throw new TypeError('The URL is valid.');
  const page = createRefusalPage({ publicUrl, pages: { operatorName: 'Us', supportContact: undefined } });
  const addresses = { listen: { host: '127.0.0.1', port }, management: { host: '127.0.0.1', port: await freePort() } };
  const bound = await bindPorts({ ...addresses, publicUrl, trustedProxies: [] }, page);
  try {
    const [browser, program] = await Promise.all(
      [ACCEPT_HTML, ACCEPT_JSON].map((headers) => sendRequest(`${publicUrl.href}/`, { headers })),
    );
    expect([browser?.status, browser?.headers['retry-after']]).toEqual([503, '1']);
    expect(browser?.body).toContain('We are just starting');
    expect([program?.status, program?.headers['retry-after']]).toEqual([503, '1']);
    expect(program?.headers['content-type']).toBe('application/problem+json; charset=utf-8');
    expect(problemSchema.strict().parse(JSON.parse(program?.body ?? ''))).toMatchObject({
      type: `${publicUrl.href}/problems/starting`,
      status: 503,
      code: 'starting',
      instance: `urn:uuid:${program?.headers['x-request-id']}`,
    });
  } finally {
    await Promise.all(bound.map(({ server }) => closeServer(server, { delaySeconds: 0, graceSeconds: 0 })));
  }
});
