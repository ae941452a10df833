/** Forward authentication by nginx, Caddy and HAProxy, each with the configuration of docs/relay.md. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { decodeJwt } from 'jose';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createUserAgent } from '../../support/browserless.ts';
import { missingCaddy, startCaddy } from '../../support/caddy.ts';
import { startDocumentedHaproxy } from '../../support/documented-haproxy.ts';
import { PASSWORD, signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { missingHaproxy } from '../../support/haproxy.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { missingNginx, startNginx } from '../../support/nginx.ts';
import { freePort } from '../../support/ports.ts';
import { ACCEPT_HTML, ACCEPT_JSON, FORM_BODY, sendRequest } from '../../support/send-request.ts';
import { openStorageOf, type StorageAccess } from '../grants/storage-access.ts';
import { createAdministrator, relayThread } from './service.ts';

const text = readFileSync(join(import.meta.dirname, '../../../docs/relay.md'), 'utf8');
const block = (kind: string) => new RegExp(`^\`\`\`${kind}\\n([\\s\\S]*?)^\`\`\``, 'm').exec(text)?.[1] ?? '';

/** What a documented configuration names, in the order of replacement. */
interface Places {
  proxy: string;
  service: string;
  gatehouse: string;
  tokenId: string;
}

const PROXIES = [
  {
    name: 'nginx',
    missing: missingNginx,
    start: (places: Places, isUp: () => Promise<boolean>) => startNginx(placed(block('nginx'), places), isUp),
  },
  {
    name: 'Caddy',
    missing: missingCaddy,
    start: (places: Places, isUp: () => Promise<boolean>) =>
      startCaddy(placed(block('caddyfile'), places).replace('reports.example.com', `http://${places.proxy}`), isUp),
  },
  {
    name: 'HAProxy',
    missing: missingHaproxy,
    async start(places: Places, isUp: () => Promise<boolean>) {
      const directory = mkdtempSync(join(tmpdir(), 'gatehouse-lua-'));
      const script = join(directory, 'gatehouse.lua');
      writeFileSync(script, placed(block('lua'), places));
      const settings = placed(block('haproxy'), places).replace('/etc/haproxy/gatehouse.lua', script);
      const haproxy = await startDocumentedHaproxy(settings, isUp);
      const stop = async () => {
        await haproxy.stop();
        rmSync(directory, { recursive: true, force: true });
      };
      return { stop };
    },
  },
];

function placed(settings: string, { proxy, service, gatehouse, tokenId }: Places): string {
  return settings
    .replaceAll('127.0.0.1:8080', proxy)
    .replaceAll('127.0.0.1:9000', service)
    .replaceAll('127.0.0.1:3000', gatehouse)
    .replaceAll('TOKEN_ID', tokenId);
}

/** Returns the same text and headers for each path, and accepts each WebSocket with one message. */
async function startService() {
  const received: { url: string; method: string; body: string; headers: IncomingHttpHeaders }[] = [];
  const note = ({ url = '', method = '', headers }: IncomingMessage, body = '') =>
    received.push({ url, method, headers, body });
  const server = createServer(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk);
    note(req, Buffer.concat(chunks).toString());
    res.end(`report at ${req.url}`);
  });
  server.on('upgrade', (req: IncomingMessage, socket: Socket) => {
    note(req);
    const key = `${req.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
    const accept = createHash('sha1').update(key).digest('base64');
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
    );
    // RFC 6455 section 5.2: one whole text message.
    socket.end(Buffer.concat([Buffer.from([0x81, 5]), Buffer.from('hello')]));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { host, received, close: () => server.close() };
}

/** Passes all requests on to Gatehouse, and keeps what the proxy sent. */
async function startRecorder(gatehouseUrl: string) {
  const received: { path: string; headers: IncomingHttpHeaders }[] = [];
  const { hostname, port } = new URL(gatehouseUrl);
  const server = createServer((req, res) => {
    const { method, url: path = '', headers } = req;
    received.push({ path, headers });
    const passed = request({ hostname, port, method, path, headers, agent: false }, (response) => {
      res.writeHead(response.statusCode ?? 0, response.headers);
      response.pipe(res);
    });
    passed.on('error', () => res.destroy());
    req.pipe(passed);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { host, received, close: () => server.close() };
}

/** @returns the status and, if the WebSocket opened, what came after the head */
function openWebSocket(url: string, headers: Record<string, string>): Promise<[number | undefined, string]> {
  return new Promise((resolve, reject) => {
    const opening = request(url, {
      agent: false,
      headers: {
        connection: 'Upgrade',
        upgrade: 'websocket',
        'sec-websocket-version': '13',
        'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
        ...headers,
      },
    });
    opening.on('upgrade', (response, socket, head) => {
      let message = head.toString('latin1');
      socket.on('data', (chunk: Buffer) => {
        message += chunk.toString('latin1');
      });
      socket.on('error', reject);
      socket.on('end', () => {
        socket.destroy();
        resolve([response.statusCode, message]);
      });
    });
    opening.on('response', (response) => {
      response.resume();
      resolve([response.statusCode, '']);
    });
    opening.on('error', reject);
    opening.end();
  });
}

describe.each(PROXIES)('$name with the documented configuration', ({ missing, start }) => {
  let site: TestSite;
  let storage: StorageAccess;
  let service: Awaited<ReturnType<typeof startService>>;
  let proxy: { stop(): Promise<unknown> };
  let relayToken: { id: string; token: string };
  /** The host that browsers see. */
  let origin: string;
  let recorder: Awaited<ReturnType<typeof startRecorder>>;
  /** Where Gatehouse listens. */
  let gatehouse: { url: string };
  let cookie: string;

  beforeAll(async () => {
    if (missing) return;
    const [proxyPort, port] = [await freePort(), await freePort()];
    origin = `http://127.0.0.1:${proxyPort}`;
    gatehouse = { url: `http://127.0.0.1:${port}/gatehouse` };
    const env = { PUBLIC_URL: `${origin}/gatehouse`, PORT: String(port), TRUSTED_PROXIES: '127.0.0.1' };
    site = await startSite({ env, sandbox: { accessTokenSeconds: 3_600 } });
    storage = await openStorageOf(site);
    relayToken = await (await createAdministrator(gatehouse, storage)).createRelayToken();
    service = await startService();
    recorder = await startRecorder(gatehouse.url);
    const places = {
      proxy: new URL(origin).host,
      service: service.host,
      gatehouse: recorder.host,
      tokenId: relayToken.id,
    };
    proxy = await start(places, async () => (await sendRequest(`${origin}/gatehouse/`)).status === 200);
    cookie = (await signIn(site)).agent.cookies.header(origin);
  });
  afterAll(async () => {
    await proxy?.stop();
    service?.close();
    recorder?.close();
    await storage?.close();
    await site?.close();
  });

  const last = () => service.received.at(-1);
  /** The service got an assertion that the relay accepts, the user's address, and no cookie. */
  async function expectProven() {
    const { headers = {} } = last() ?? {};
    const assertion = String(headers['gatehouse-user-assertion']);
    expect(decodeJwt(assertion)).toMatchObject({ aud: relayToken.id, iss: `${origin}/gatehouse` });
    const thread = await relayThread(gatehouse, relayToken.token, { 'gatehouse-user-assertion': assertion });
    expect(thread.status).toBe(200);
    expect([headers.cookie, headers['x-forwarded-for']]).toEqual([undefined, '127.0.0.1']);
  }

  test('R77 a page, a script, a form and an upload reach the service with an assertion', async (context) => {
    skipIfMissing(context, missing);
    const forwarded = { 'x-forwarded-for': '198.51.100.9' };
    for (const headers of [ACCEPT_HTML, ACCEPT_JSON, { accept: '*/*' }, {}]) {
      const page = await sendRequest(`${origin}/a/b?c=d&e=%2F`, { headers: { ...headers, ...forwarded, cookie } });
      expect([page.status, page.body]).toEqual([200, 'report at /a/b?c=d&e=%2F']);
      await expectProven();
    }
    const form = await sendRequest(`${origin}/form`, {
      method: 'POST',
      headers: { ...ACCEPT_HTML, ...FORM_BODY, cookie },
      body: 'a=b',
    });
    expect([form.status, last()?.method, last()?.body]).toEqual([200, 'POST', 'a=b']);
    await expectProven();
    // Whatever the browser says of its own address, Gatehouse counts the one that the proxy sees.
    for (const path of ['/a', '/gatehouse/session']) {
      await sendRequest(`${origin}${path}`, { headers: { ...ACCEPT_JSON, ...forwarded, cookie } });
      expect(recorder.received.at(-1)).toMatchObject({ headers: { 'x-forwarded-for': '127.0.0.1' } });
    }
    const chunked = await fetch(`${origin}/upload`, {
      method: 'PUT',
      headers: { cookie },
      body: new Blob(['x'.repeat(5_000)]).stream(),
      duplex: 'half',
    } as RequestInit);
    expect([chunked.status, last()?.body.length]).toEqual([200, 5_000]);
    await expectProven();
  });

  test('R77 a WebSocket opens with an assertion, and not without a session', async (context) => {
    skipIfMissing(context, missing);
    const socket = await openWebSocket(`${origin}/live`, { cookie });
    expect(socket).toEqual([101, '\x81\x05hello']);
    await expectProven();
    const count = service.received.length;
    expect(await openWebSocket(`${origin}/live`, {})).toEqual([401, '']);
    expect(service.received).toHaveLength(count);
  });

  test('R77 a frame, a read by another site and every method reach the service', async (context) => {
    skipIfMissing(context, missing);
    const fetchMetadata = (dest: string, mode: string, site: string) => ({
      'sec-fetch-dest': dest,
      'sec-fetch-mode': mode,
      'sec-fetch-site': site,
    });
    const requests: { method?: string; headers: Record<string, string> }[] = [
      { headers: { ...ACCEPT_HTML, ...fetchMetadata('iframe', 'navigate', 'same-origin') } },
      { headers: { accept: '*/*', ...fetchMetadata('empty', 'cors', 'cross-site') } },
      { headers: { accept: 'image/*', ...fetchMetadata('image', 'no-cors', 'cross-site') } },
      ...['HEAD', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND'].map((method) => ({ method, headers: ACCEPT_HTML })),
    ];
    for (const { headers, ...details } of requests) {
      const response = await sendRequest(`${origin}/part`, { ...details, headers: { ...headers, cookie } });
      expect([response.status, last()?.url, last()?.method]).toEqual([200, '/part', details.method ?? 'GET']);
      await expectProven();
    }
    const socket = { cookie, origin: 'https://other.test', ...fetchMetadata('empty', 'websocket', 'cross-site') };
    expect((await openWebSocket(`${origin}/live`, socket))[0]).toBe(101);
  });

  test('R77 a deep link without a session leads through the sign-in and back', async (context) => {
    skipIfMissing(context, missing);
    const link = `${origin}/reports/2026?view=7&sort=a%26b`;
    const { status, headers } = await sendRequest(link, { headers: ACCEPT_HTML });
    const signInUrl = `${origin}/gatehouse/sign-in?return_to=%2Freports%2F2026%3Fview%3D7%26sort%3Da%2526b`;
    expect([status, headers.location]).toEqual([303, signInUrl]);
    const agent = createUserAgent();
    const signInPage = await agent.get(signInUrl);
    const returned = await agent.submit(signInPage, { login: 'user@example.test', password: PASSWORD });
    const page = returned.forms.length > 0 ? await agent.submit(returned, {}, { button: 'Allow' }) : returned;
    expect([page.url, page.status, page.body]).toEqual([link, 200, 'report at /reports/2026?view=7&sort=a%26b']);
    await expectProven();
  });

  test('R77 a form without a session leads back to its page, since its own path may not be one to open', async (context) => {
    skipIfMissing(context, missing);
    const { status, headers } = await sendRequest(`${origin}/items/7/delete`, {
      method: 'POST',
      headers: { ...ACCEPT_HTML, ...FORM_BODY, origin, referer: `${origin}/items?page=2` },
      body: 'a=b',
    });
    expect([status, headers.location]).toEqual([303, `${origin}/gatehouse/sign-in?return_to=%2Fitems%3Fpage%3D2`]);
  });

  test('R77 a script without a session gets 401, and a forged assertion counts for nothing', async (context) => {
    skipIfMissing(context, missing);
    const count = service.received.length;
    const forged = { 'gatehouse-user-assertion': 'eyJhbGciOiJub25lIn0.e30.' };
    const fragment = { ...ACCEPT_HTML, 'sec-fetch-mode': 'cors', 'sec-fetch-dest': 'empty' };
    for (const headers of [ACCEPT_JSON, { accept: '*/*' }, {}, fragment]) {
      const refused = await sendRequest(`${origin}/data`, { headers: { ...headers, ...forged } });
      expect([refused.status, refused.headers.location]).toEqual([401, undefined]);
    }
    const page = await sendRequest(`${origin}/data`, { headers: { ...ACCEPT_HTML, ...forged } });
    expect([page.status, page.headers.location]).toEqual([303, `${origin}/gatehouse/sign-in?return_to=%2Fdata`]);
    expect(service.received).toHaveLength(count);
    const signedIn = await sendRequest(`${origin}/data`, { headers: { ...ACCEPT_JSON, ...forged, cookie } });
    expect(signedIn.status).toBe(200);
    await expectProven();
  });

  test('R77 a path that no redirect may name leads to the start page of Gatehouse', async (context) => {
    skipIfMissing(context, missing);
    for (const path of ['//evil.example/x', `/${'x'.repeat(600)}`, '/4571736012345674']) {
      const page = await sendRequest(origin, { target: path, headers: ACCEPT_HTML });
      expect([page.status, page.headers.location]).toEqual([303, `${origin}/gatehouse/sign-in`]);
    }
  });

  test('R73 the log names no host, since the proxy passes on that of the browser', async (context) => {
    skipIfMissing(context, missing);
    expect(site.logs().filter((line) => line.includes('PUBLIC_URL'))).toEqual([]);
  });

  // The last test: it ends the recorder, and with it Gatehouse for the proxy.
  test('R77 while Gatehouse does not respond, no request reaches the service', async (context) => {
    skipIfMissing(context, missing);
    const count = service.received.length;
    recorder.close();
    for (const headers of [{ ...ACCEPT_HTML, cookie }, { ...ACCEPT_JSON, cookie }, ACCEPT_HTML]) {
      const { status } = await sendRequest(`${origin}/data`, { headers });
      expect([500, 502, 503]).toContain(status);
    }
    expect((await openWebSocket(`${origin}/live`, { cookie }))[0]).toBeGreaterThanOrEqual(500);
    expect(service.received).toHaveLength(count);
  });
});
