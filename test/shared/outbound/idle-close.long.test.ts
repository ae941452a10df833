/** Calls to a real nginx, 80 ms away, that closes idle connections and is reloaded. */
import { createServer, type Server } from 'node:http';
import {
  type AddressInfo,
  connect,
  createServer as createTcpServer,
  type Socket,
  type Server as TcpServer,
} from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { createAddressPolicy } from '../../../src/shared/outbound/address-policy.ts';
import { createOutbound } from '../../../src/shared/outbound/outbound.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { missingNginx, type Nginx, startNginx } from '../../support/nginx.ts';
import { freePort } from '../../support/ports.ts';
import { sendRequest } from '../../support/send-request.ts';

const DELAY_MS = 40;
const KEEP_ALIVE_MS = 1_000;
let nginx: Nginx | undefined;
let origin: Server;
let relay: TcpServer;
let url: string;
let posted: string[];

/** Forwards data and the end of a connection after a delay. */
function delayed(from: Socket, to: Socket): void {
  from.on('data', (chunk) => setTimeout(() => to.write(chunk), DELAY_MS));
  from.on('end', () => setTimeout(() => to.end(), DELAY_MS));
  from.on('error', () => to.destroy());
  from.on('close', () => setTimeout(() => to.destroy(), DELAY_MS + 10));
}

beforeAll(async () => {
  if (missingNginx !== undefined) return;
  posted = [];
  origin = createServer((req, res) => {
    if (req.method === 'POST') posted.push(req.url ?? '');
    req.resume().on('end', () => res.end('{}'));
  });
  await new Promise<void>((resolve) => origin.listen(0, '127.0.0.1', resolve));
  const port = await freePort();
  nginx = await startNginx(
    `keepalive_timeout ${KEEP_ALIVE_MS / 1000}s;
     server { listen 127.0.0.1:${port}; location / { proxy_pass http://127.0.0.1:${(origin.address() as AddressInfo).port}; } }`,
    async () => (await sendRequest(`http://127.0.0.1:${port}/`)).status === 200,
  );
  relay = createTcpServer({ allowHalfOpen: true }, (client) => {
    const onward = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    delayed(client, onward);
    delayed(onward, client);
  });
  await new Promise<void>((resolve) => relay.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(relay.address() as AddressInfo).port}`;
});
afterAll(async () => {
  await nginx?.stop();
  relay?.close();
  origin?.close();
});
beforeEach((context) => skipIfMissing(context, missingNginx));

test('R130 no call fails and no POST arrives twice while nginx closes idle connections and reloads', async () => {
  const outbound = createOutbound({ policy: createAddressPolicy(['127.0.0.1']) });
  const limits = { deadlineMilliseconds: 15_000, maxBytes: 1_000 };
  const failures: string[] = [];
  const recordFailure = (call: Promise<unknown>) => call.catch(({ message }: Error) => void failures.push(message));
  let sent = 0;
  /** Calls repeatedly around the time at which nginx closes the connection. */
  const caller = async (index: number) => {
    for (let round = 0; round < 10; round += 1) {
      await recordFailure(outbound.fetch(`${url}/get`, {}, limits));
      await sleep(KEEP_ALIVE_MS - DELAY_MS - 60 + ((index * 7 + round * 13) % 120));
      const id = `/post/${sent++}`;
      await recordFailure(
        round % 2
          ? outbound.fetch(`${url}/get`, {}, limits)
          : outbound.fetch(url + id, { method: 'POST', body: 'a=b' }, limits),
      );
    }
  };
  const reloading = setInterval(() => nginx?.reload(), 1_300);
  await Promise.all(Array.from({ length: 8 }, (_, index) => caller(index)));
  clearInterval(reloading);
  await outbound.close();
  expect(failures).toEqual([]);
  expect(new Set(posted).size).toBe(posted.length);
  expect(posted).toHaveLength(40);
});
