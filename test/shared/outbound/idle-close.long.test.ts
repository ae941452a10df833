/** A real nginx that closes idle connections and is reloaded, 80 ms away: no call fails, and no POST arrives twice. */
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
import { ask } from '../../support/ask.ts';
import { skipWithout } from '../../support/missing.ts';
import { missingNginx, type Nginx, startNginx } from '../../support/nginx.ts';
import { freePort } from '../../support/ports.ts';

const DELAY_MS = 40;
const KEEP_ALIVE_MS = 1_000;
let nginx: Nginx | undefined;
let origin: Server;
let far: TcpServer;
let url: string;
let posted: string[];

/** Passes everything on after a while, the end of a connection too. */
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
    async () => (await ask(`http://127.0.0.1:${port}/`)).status === 200,
  );
  far = createTcpServer({ allowHalfOpen: true }, (near) => {
    const onward = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    delayed(near, onward);
    delayed(onward, near);
  });
  await new Promise<void>((resolve) => far.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(far.address() as AddressInfo).port}`;
});
afterAll(async () => {
  await nginx?.stop();
  far?.close();
  origin?.close();
});
beforeEach((context) => skipWithout(context, missingNginx));

test('R130 calls that are timed to the end of an idle connection, and to reloads', async () => {
  const outbound = createOutbound({ policy: createAddressPolicy(['127.0.0.1']) });
  const limits = { deadlineMilliseconds: 15_000, maxBytes: 1_000 };
  const failures: string[] = [];
  const note = (call: Promise<unknown>) => call.catch(({ message }: Error) => void failures.push(message));
  let sent = 0;
  /** Calls again and again, at moments around the one at which nginx closes. */
  const caller = async (index: number) => {
    for (let round = 0; round < 10; round += 1) {
      await note(outbound.fetch(`${url}/get`, {}, limits));
      await sleep(KEEP_ALIVE_MS - DELAY_MS - 60 + ((index * 7 + round * 13) % 120));
      const id = `/post/${sent++}`;
      await note(
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
