/** R107 with undici's real pool: a request that it would refuse uses up no connection, and the host stays usable. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createAddressPolicy } from '../../../src/shared/outbound/address-policy.ts';
import { createOutbound, type Outbound, OutboundError } from '../../../src/shared/outbound/outbound.ts';
import { type HostileProvider, startHostileProvider } from '../../support/hostile-provider.ts';

const LIMITS = { deadlineMilliseconds: 120_000, maxBytes: 64 * 1024 };
const REQUESTS = 1_000;
const UNSENDABLE = ['a€b', 'a\nb', 'a\u0000b', 'a\u007fb'];

let provider: HostileProvider;
let outbound: Outbound;
beforeAll(async () => {
  provider = await startHostileProvider();
  outbound = createOutbound({ policy: createAddressPolicy(['127.0.0.1']), limits: { concurrency: 4, waiting: 100 } });
});
afterAll(async () => {
  await outbound.close();
  await provider.close();
});

const stream = (headers: string[]) => outbound.stream(outbound.target(`${provider.issuer}/jwks`), headers).response;
const fetch = (headers: Record<string, string>) => outbound.fetch(`${provider.issuer}/jwks`, { headers }, LIMITS);
const toError = (error: unknown) => error;

async function expectUsable(): Promise<void> {
  const response = await stream(['accept', 'application/json']);
  response.body.destroy(new Error('The status is enough.'));
  expect([response.statusCode, (await fetch({})).status]).toEqual([200, 200]);
  expect(outbound.load()).toEqual({ running: 0, waiting: 0 });
}

test('R107 1,000 streamed requests with a header that cannot be sent leave the host usable', async () => {
  for (let index = 0; index < REQUESTS; index += 1) {
    const value = `Bearer ${UNSENDABLE[index % UNSENDABLE.length]}`;
    expect(await stream(['authorization', value]).catch(toError)).toMatchObject({ code: 'ERR_INVALID_CHAR' });
  }
  expect(provider.hits).toEqual([]);
  await expectUsable();
});

test('R107 1,000 buffered requests with a header that cannot be sent leave the host usable', async () => {
  provider.reset();
  for (let index = 0; index < REQUESTS; index += 1) {
    const value = `Bearer ${UNSENDABLE[index % UNSENDABLE.length]}`;
    expect(await fetch({ authorization: value }).catch(toError)).toBeInstanceOf(OutboundError);
  }
  expect(provider.hits).toEqual([]);
  await expectUsable();
});

test('R107 a header name that cannot be sent is refused', async () => {
  expect(await stream(['acc€pt', 'x']).catch(toError)).toMatchObject({ code: 'ERR_INVALID_HTTP_TOKEN' });
  await expectUsable();
});
