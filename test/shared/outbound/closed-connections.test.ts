/** Connections that a scripted host closes by FIN or RST while a request is on its way. */
import type { AddressInfo, Server, Socket } from 'node:net';
import { createServer } from 'node:net';
import { createServer as createTlsServer, getCACertificates, setDefaultCACertificates, type TLSSocket } from 'node:tls';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createAddressPolicy } from '../../../src/shared/outbound/address-policy.ts';
import { createOutbound, type Outbound, OutboundError } from '../../../src/shared/outbound/outbound.ts';
import { readableOf } from '../../../src/shared/outbound/streamed-body.ts';
import { selfSigned } from '../../support/self-signed.ts';

const LIMITS = { deadlineMilliseconds: 10_000, maxBytes: 1_000 };
const RESPONSE = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}';

/** The host's action on a request: it responds, or closes the connection by FIN or RST, possibly within a response. */
type Action = 'respond' | 'fin' | 'rst' | 'part then rst';

interface Request {
  line: string;
  connection: number;
  /** How many requests the connection carried before. */
  earlier: number;
}

const defaultAuthorities = getCACertificates('default');
const certificate = selfSigned('localhost');
let requests: Request[];
let connections: number;
let actionFor: (request: Request) => Action;
let outbound: Outbound;
const servers: Server[] = [];
const urls: Record<'plain' | 'tls', string> = { plain: '', tls: '' };

/** The TCP connections by the port of the caller, which a reset under TLS needs. */
const tcpSockets = new Map<number | undefined, Socket>();

function serve(socket: Socket | TLSSocket): void {
  const connection = connections++;
  let earlier = 0;
  let text = '';
  socket.on('error', () => undefined);
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
    const [head = '', body] = text.split('\r\n\r\n');
    const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
    if (body === undefined || body.length < length) return;
    text = '';
    const request = { line: head.split('\r\n')[0] ?? '', connection, earlier };
    earlier += 1;
    requests.push(request);
    const action = actionFor(request);
    if (action === 'respond') socket.write(RESPONSE);
    else if (action === 'fin') socket.destroy();
    else {
      if (action === 'part then rst') socket.write(RESPONSE.slice(0, 12));
      setTimeout(() => tcpSockets.get(socket.remotePort)?.resetAndDestroy(), 20);
    }
  });
}

beforeAll(async () => {
  const tls = createTlsServer(certificate, serve);
  setDefaultCACertificates([...defaultAuthorities, certificate.cert]);
  for (const [name, server] of [
    ['plain', createServer(serve)],
    ['tls', createServer((socket) => void tls.emit('connection', socket))],
  ] as const) {
    server.on('connection', (socket) => tcpSockets.set(socket.remotePort, socket));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    servers.push(server);
    const { port } = server.address() as AddressInfo;
    urls[name] = name === 'tls' ? `https://localhost:${port}` : `http://127.0.0.1:${port}`;
  }
});
afterAll(() => {
  setDefaultCACertificates(defaultAuthorities);
  for (const server of servers) server.close();
});
beforeEach(() => {
  requests = [];
  connections = 0;
  actionFor = () => 'respond';
  outbound = createOutbound({ policy: createAddressPolicy(['127.0.0.1', 'localhost', '::1']) });
});
afterEach(() => outbound.close());

const get = (url: string) =>
  outbound.fetch(`${url}/get`, {}, LIMITS).then(
    ({ status }) => status,
    (error: unknown) => error,
  );
const post = (url: string) =>
  outbound.fetch(`${url}/post`, { method: 'POST', body: 'code=1' }, LIMITS).then(
    ({ status }) => status,
    (error: unknown) => error,
  );
async function stream(url: string): Promise<unknown> {
  try {
    const { statusCode, body } = await outbound.stream(outbound.target(`${url}/get`), []).response;
    for await (const _chunk of readableOf(body));
    return statusCode;
  } catch (error) {
    return error;
  }
}

const connectionsUsed = () => requests.map(({ line, connection }) => `${line.split(' ')[0]} ${connection}`);
/** Undici reuses a connection only in a later turn of the event loop. */
const pause = () => new Promise((resolve) => setTimeout(resolve, 20));

describe.each(['plain', 'tls'] as const)('R130 over %s', (kind) => {
  describe.each([
    ['a buffered', get],
    ['a streamed', stream],
  ])('%s GET', (_name, call) => {
    test.each(['fin', 'rst'] as const)(
      'is retried once on a new connection if a used one is closed by %s',
      async (closing) => {
        actionFor = ({ earlier }) => (earlier > 0 ? closing : 'respond');
        expect(await call(urls[kind])).toBe(200);

        await pause();
        expect(await call(urls[kind])).toBe(200);
        expect(connectionsUsed()).toEqual(['GET 0', 'GET 0', 'GET 1']);
      },
    );

    test.each(['fin', 'rst'] as const)('fails at once if a new connection is closed by %s', async (closing) => {
      actionFor = () => closing;
      expect(await call(urls[kind])).toBeInstanceOf(Error);
      expect(connectionsUsed()).toEqual(['GET 0']);
    });

    test('is not retried once the response has begun', async () => {
      actionFor = ({ earlier }) => (earlier > 0 ? 'part then rst' : 'respond');
      await call(urls[kind]);
      await pause();
      expect(await call(urls[kind])).toBeInstanceOf(Error);
      expect(connectionsUsed()).toEqual(['GET 0', 'GET 0']);
    });

    test('is sent at most twice', async () => {
      actionFor = () => (requests.length > 1 ? 'rst' : 'respond');
      await call(urls[kind]);
      await pause();
      expect(await call(urls[kind])).toBeInstanceOf(Error);
      expect(connectionsUsed()).toEqual(['GET 0', 'GET 0', 'GET 1']);
    });
  });

  test('each POST has a new connection, which is not reused', async () => {
    actionFor = ({ earlier }) => (earlier > 0 ? 'rst' : 'respond');
    expect(await get(urls[kind])).toBe(200);
    for (const _time of [1, 2, 3]) {
      await pause();
      expect(await post(urls[kind])).toBe(200);
    }
    expect(connectionsUsed()).toEqual(['GET 0', 'POST 1', 'POST 2', 'POST 3']);
  });

  test.each(['fin', 'rst'] as const)('a POST whose connection is closed by %s is sent once', async (closing) => {
    actionFor = () => closing;
    const host = new URL(urls[kind]).host;
    expect(await post(urls[kind])).toMatchObject({
      reason: 'connection',
      sent: true,
      message: expect.stringContaining(`${host} closed the connection before its response was complete`),
    });
    expect(connectionsUsed()).toEqual(['POST 0']);
  });
});

describe('R130 a connection that is reset before anything was sent', () => {
  async function withResets<T>(resets: number, work: (url: string) => Promise<T>): Promise<T> {
    let remaining = resets;
    const server = createServer((socket) => {
      socket.on('error', () => undefined);
      if (remaining-- > 0) socket.once('data', () => socket.resetAndDestroy());
      else createTlsServer(certificate, serve).emit('connection', socket);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    try {
      return await work(`https://localhost:${(server.address() as AddressInfo).port}`);
    } finally {
      server.close();
    }
  }

  test('is retried at once, even for a POST', async () => {
    expect(await withResets(1, post)).toBe(200);
    expect(connectionsUsed()).toEqual(['POST 0']);
  });

  test('is tried at most twice, and the error says that nothing was sent', async () => {
    const error = await withResets(3, post);
    expect(error).toBeInstanceOf(OutboundError);
    expect(error).toMatchObject({ reason: 'connection', sent: false });
    expect(requests).toEqual([]);
  });
});
