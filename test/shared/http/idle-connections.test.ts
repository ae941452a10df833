/**
 * R89: the cap on idle connections of one address, which neither trusted proxies nor requests in flight are subject to.
 */
import { once } from 'node:events';
import type { RequestListener, Server, ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, test } from 'vitest';
import { capIdleConnections } from '../../../src/shared/http/idle-connections.ts';
import { createLimitedServer, LISTENER_LIMITS } from '../../../src/shared/http/limits.ts';
import { startWithoutSandbox, type TestGatehouse } from '../../support/gatehouse.ts';
import { ACCEPT_JSON, sendRequest } from '../../support/send-request.ts';
import { until } from '../../support/until.ts';

const GET = 'GET /session HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\r\n';
/** All addresses of 127.0.0.0/8 are this machine. */
const PEER = '127.0.0.2';

const sockets: Socket[] = [];
let site: TestGatehouse | undefined;
let server: Server | undefined;
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await site?.close();
  server?.closeAllConnections();
  server?.close();
  site = undefined;
  server = undefined;
});

/** Opens a connection from this address. `received()` returns the bytes received so far. */
async function open(port: number, localAddress = PEER): Promise<{ socket: Socket; received: () => string }> {
  const socket = connect({ port, host: '127.0.0.1', localAddress });
  sockets.push(socket);
  let bytes = '';
  socket
    .on('error', () => undefined)
    .on('data', (chunk) => {
      bytes += chunk;
    });
  await once(socket, 'connect');
  return { socket, received: () => bytes };
}

const isOpen = ({ closed, readableEnded }: Socket) => !closed && !readableEnded;
const countOpen = () => sockets.filter(isOpen).length;

describe('R89 Gatehouse as shipped', () => {
  const { idlePerAddress } = LISTENER_LIMITS;

  test('keeps 500 idle connections of one address, and closes the longest idle one', async () => {
    expect(idlePerAddress).toBe(500);

    site = await startWithoutSandbox({ apps: [] });
    const port = Number(new URL(site.url).port);
    const [first, second] = [await open(port), await open(port)];
    for (let count = 2; count < idlePerAddress; count += 1) await open(port);
    // The first is used, so the second has been idle longest.
    first?.socket.write(GET);
    await until(() => first?.received().includes('200 OK') ?? false);
    expect(countOpen()).toBe(idlePerAddress);

    await open(port);
    await until(() => countOpen() === idlePerAddress);
    expect([first?.socket.closed, second?.socket.readableEnded]).toEqual([false, true]);

    // Other addresses and the same address are still served.
    const other = await open(port, '127.0.0.3');
    const same = await open(port);
    for (const { socket, received } of [other, same]) {
      socket.write(GET);
      await until(() => received().includes('200 OK'));
    }
    expect((await sendRequest(`${site.url}/session`, { headers: ACCEPT_JSON })).status).toBe(200);
  });

  test('closes no connection of a trusted proxy', async () => {
    site = await startWithoutSandbox({ apps: [], env: { TRUSTED_PROXIES: '127.0.0.0/24' } });
    const port = Number(new URL(site.url).port);
    const openMany = async (from: string) => {
      const firstIndex = sockets.length;
      for (let count = 0; count < idlePerAddress + 20; count += 1) await open(port, from);
      return sockets.slice(firstIndex);
    };
    const trusted = await openMany(PEER);
    // When later connections of a client have been closed, those of the proxy would have been, too.
    const client = await openMany('127.0.1.2');
    await until(() => client.filter(isOpen).length === idlePerAddress);
    expect(trusted.filter(isOpen)).toHaveLength(trusted.length);
  });
});

async function listen(listener: RequestListener): Promise<number> {
  server = createLimitedServer(LISTENER_LIMITS, listener);
  capIdleConnections(server, { max: 1, trustedProxies: [] });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

test('R89 a connection with a request in flight is not idle, even after an earlier request has ended', async () => {
  const inFlight: ServerResponse[] = [];
  const port = await listen((_req, res) => void inFlight.push(res));
  const busyConnection = await open(port);
  busyConnection.socket.write(GET + GET);
  await until(() => inFlight.length === 2);
  inFlight[0]?.end('first');
  await until(() => busyConnection.received().includes('first'));
  const others = [await open(port), await open(port), await open(port)];
  await until(() => countOpen() === 2);
  expect(others.map(({ socket }) => socket.readableEnded)).toEqual([true, true, false]);

  inFlight[1]?.end('second');
  await until(() => busyConnection.received().includes('second'));
});

test('R89 a burst of requests, each on its own connection, is served despite the cap', async () => {
  const port = await listen((_req, res) => void res.end('served'));
  const responses = Array.from({ length: 100 }, () => {
    const socket = connect(port, '127.0.0.1', () =>
      socket.write(GET.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n')),
    );
    sockets.push(socket);
    return text(socket);
  });
  for (const response of await Promise.all(responses)) expect(response).toContain('served');
});
