/** Calls through the operator's proxy, and calls that must bypass it or never reach it. */
import { lookup as systemLookup } from 'node:dns';
import { createServer as createHttpServer, type RequestListener, type Server } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createAddressPolicy } from '../../../src/shared/outbound/address-policy.ts';
import type { OutboundProxy } from '../../../src/shared/outbound/dispatcher.ts';
import { createOutbound, type Outbound, OutboundError } from '../../../src/shared/outbound/outbound.ts';
import { startWithoutSandbox } from '../../support/gatehouse.ts';
import { freePort } from '../../support/ports.ts';
import { selfSigned } from '../../support/self-signed.ts';
import { sendRequest } from '../../support/send-request.ts';

const LIMITS = { deadlineMilliseconds: 120_000, maxBytes: 1_000 };
const defaultAuthorities = getCACertificates('default');
const certificate = selfSigned('idp.example.com');
const servers: { close(): unknown }[] = [];

/** The requests that the proxy received. */
let tunnels: { target: string; credentials: string | undefined }[] = [];
/** The requests that the provider received. */
let requests: { url: string; headers: Record<string, unknown> }[] = [];
let provider: string;
let plainUrl: string;
let proxyUrl: string;

/** All names resolve to this machine, except for one with a forbidden address and two that do not resolve. */
const lookup = ((name: string, options: object, done: (error: Error | null, ...rest: unknown[]) => void) => {
  if (name === 'unknown.example.com' || name === 'proxy.invalid')
    return done(Object.assign(new Error('no such name'), { code: 'ENOTFOUND' }));
  return systemLookup(name === 'rebound.example.com' ? '169.254.169.254' : '127.0.0.1', options, done as never);
}) as unknown as typeof systemLookup;

beforeAll(async () => {
  setDefaultCACertificates([...defaultAuthorities, certificate.cert]);
  const listen = async (server: Server) => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    servers.push(server);
    return (server.address() as AddressInfo).port;
  };
  const respond: RequestListener = (req, res) => {
    requests.push({ url: req.url ?? '', headers: { ...req.headers } });
    res.end('{}');
  };
  const providerPort = await listen(createHttpsServer(certificate, respond) as unknown as Server);
  provider = `https://idp.example.com:${providerPort}`;
  plainUrl = `http://127.0.0.1:${await listen(createHttpServer(respond))}`;
  const proxy = createHttpServer((_req, res) => {
    tunnels.push({ target: 'not a tunnel', credentials: undefined });
    res.writeHead(500).end();
  });
  proxy.on('connect', (req, socket: Socket) => {
    tunnels.push({ target: req.url ?? '', credentials: req.headers['proxy-authorization'] });
    if (req.url?.startsWith('refused.')) return socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
    const onward = connect(providerPort, '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 Connection Established\r\n\r\n');
      onward.pipe(socket).pipe(onward);
    });
    for (const end of [onward, socket]) end.on('error', () => onward.destroy());
    return undefined;
  });
  proxyUrl = `http://operator:open%20sesame@127.0.0.1:${await listen(proxy)}`;
});
afterAll(() => {
  setDefaultCACertificates(defaultAuthorities);
  for (const server of servers) server.close();
});
beforeEach(() => {
  tunnels = [];
  requests = [];
});

async function withProxy<T>(
  bypass: string,
  work: (outbound: Outbound) => Promise<T>,
  internalHosts = ['127.0.0.1'],
): Promise<T> {
  const policy = createAddressPolicy(internalHosts);
  const outbound = createOutbound({ policy, lookup, proxy: { url: proxyUrl, bypass } });
  try {
    return await work(outbound);
  } finally {
    await outbound.close();
  }
}

const post = (url: string) => (outbound: Outbound) =>
  outbound.fetch(url, { method: 'POST', headers: { authorization: 'Basic c2VjcmV0' }, body: 'code' }, LIMITS).then(
    ({ status }) => `status ${status}`,
    (error: unknown) => (error instanceof OutboundError ? error.reason : String(error)),
  );

describe('HTTPS_PROXY', () => {
  test('opens a tunnel with its own credentials, and receives none of the headers inside it', async () => {
    expect(await withProxy('', post(`${provider}/token`))).toBe('status 200');

    const credentials = `Basic ${Buffer.from('operator:open sesame').toString('base64')}`;
    expect(tunnels).toEqual([{ target: new URL(provider).host, credentials }]);
    expect(requests).toHaveLength(1);
    expect(requests[0]?.headers).toMatchObject({ authorization: 'Basic c2VjcmV0', host: new URL(provider).host });
    expect(Object.keys(requests[0]?.headers ?? {}).filter((name) => name.startsWith('proxy-'))).toEqual([]);
  });

  test('carries streamed responses, too', async () => {
    const text = await withProxy('', async (outbound) => {
      const { body, statusCode } = await outbound.stream(outbound.target(`${provider}/threads`), []).response;
      body.destroy(new Error('seen enough'));
      return statusCode;
    });
    expect(text).toBe(200);
    expect(tunnels).toHaveLength(1);
  });

  test.each([
    ...['idp.example.com', 'IDP.Example.COM', 'idp.example.com.', '.example.com', '*.example.com', '*', ' * '],
    ...['other.example, example.com', 'other.example idp.example.com', ',, ,idp.example.com:PORT,'],
  ])('is bypassed for NO_PROXY %s', async (bypass) => {
    expect(await withProxy(bypass.replace('PORT', new URL(provider).port), post(`${provider}/token`))).toBe(
      'status 200',
    );
    expect(tunnels).toEqual([]);
  });

  test.each([
    ...['x.idp.example.com', 'dp.example.com', 'idp.example', 'idp.example.com:1', '*.idp.example.com', '127.0.0.0/8'],
    ...['idp.example.com.evil.test', 'https://idp.example.com'],
  ])('is used for NO_PROXY %s', async (bypass) => {
    expect(await withProxy(bypass, post(`${provider}/token`))).toBe('status 200');
    expect(tunnels).toHaveLength(1);
  });

  test('never carries plain http, which is only for loopback hosts', async () => {
    expect(await withProxy('', post(`${plainUrl}/token`))).toBe('status 200');
    expect(tunnels).toEqual([]);
  });

  test('R79 receives no request for a forbidden host, by address or by name', async () => {
    const { port } = new URL(provider);
    expect(await withProxy('', post(`https://rebound.example.com:${port}/token`))).toBe('address');
    expect(await withProxy('', post('https://169.254.169.254/token'))).toBe('address');
    expect(await withProxy('', post('https://10.0.0.1/token'))).toBe('address');
    expect(await withProxy('*', post(`https://rebound.example.com:${port}/token`))).toBe('address');
    expect(tunnels).toEqual([]);
  });

  test('is used by the shipped Gatehouse for calls to a provider', async () => {
    const app = {
      id: 'platform',
      name: 'Platform',
      issuer: 'https://refused.example.com',
      clientId: 'one',
      scopes: ['openid'],
      tokenEndpointAuthMethod: 'none',
      signIn: { allow: 'everyone' },
    };
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    const apps = [{ ...app, callbackUrls: [`${url}/oauth/callback/platform`] }];
    const site = await startWithoutSandbox({
      port,
      apps,
      env: { HTTPS_PROXY: proxyUrl, INTERNAL_HOSTS: 'refused.example.com' },
    });
    try {
      expect((await sendRequest(`${url}/sign-in`)).status).toBe(503);
    } finally {
      await site.close();
    }
    expect(tunnels[0]?.target).toBe('refused.example.com:443');
    expect(site.logs().join()).not.toContain('sesame');
  });

  test('R79 receives no request for a name that cannot be resolved here, since its address cannot be checked', async () => {
    const { port } = new URL(provider);
    expect(await withProxy('', post(`https://unknown.example.com:${port}/token`))).toBe('connection');
    expect(tunnels).toEqual([]);

    const adviceWith = async (proxy: OutboundProxy | undefined) => {
      const outbound = createOutbound({ policy: createAddressPolicy([]), lookup, proxy });
      const failure = await outbound.fetch('https://unknown.example.com/', {}, LIMITS).catch((error) => error);
      await outbound.close();
      expect(failure.message).toContain('the name unknown.example.com cannot be resolved');
      return failure.advice;
    };
    expect(await adviceWith({ url: proxyUrl, bypass: '' })).toContain('HTTPS_PROXY');
    expect(await adviceWith(undefined)).not.toContain('HTTPS_PROXY');
  });

  test('resolves a name that only the proxy knows, if INTERNAL_HOSTS contains it', async () => {
    const { port } = new URL(provider);
    const url = `https://unknown.example.com:${port}/token`;
    // The certificate is for another name, which shows that the tunnel was opened.
    expect(await withProxy('', post(url), ['127.0.0.1', 'unknown.example.com'])).toBe('connection');
    expect(tunnels).toMatchObject([{ target: `unknown.example.com:${port}` }]);
    expect(requests).toEqual([]);
  });

  test.each([
    ['refuses the host', () => proxyUrl, 'UND_ERR_ABORTED'],
    ['does not run', async () => `http://127.0.0.1:${await freePort()}`, 'ECONNREFUSED'],
    ['has an unknown name', () => 'http://proxy.invalid:3128', '(ENOTFOUND|EAI_AGAIN)'],
  ])('that %s is reported as the cause, instead of the host', async (_name, urlOf, code) => {
    const proxy = { url: await urlOf(), bypass: '' };
    const outbound = createOutbound({ policy: createAddressPolicy(['127.0.0.1']), lookup, proxy });
    const failure = await outbound.fetch('https://refused.example.com/token', {}, LIMITS).catch((error) => error);
    await outbound.close();
    const message = `^the proxy in HTTPS_PROXY did not open a connection to refused\\.example\\.com:443 \\(${code}\\)$`;
    expect(failure).toMatchObject({ reason: 'connection', message: expect.stringMatching(message) });
    expect(failure.advice).toContain('HTTPS_PROXY');
  });
});
