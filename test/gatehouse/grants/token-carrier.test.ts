/**
 * How an access token is sent: as a bearer token, or with a DPoP proof per call and the nonce that the platform
 * requires.
 */
import { decodeJwt } from 'jose';
import { beforeEach, expect, test, vi } from 'vitest';
import { createTokenCarrier } from '../../../src/gatehouse/grants/token-carrier.ts';
import type { StreamedResponse } from '../../../src/shared/outbound/streamed-body.ts';
import { type DpopKey, makeDpopKey } from '../../../src/shared/provider/dpop.ts';

const TARGET = { origin: 'https://platform.test', path: '/threads/current' };
const NONCE_CHALLENGE = { 'www-authenticate': 'DPoP error="use_dpop_nonce"' };

let dpopKey: DpopKey;
let sentHeaders: Record<string, string>[];
let responses: StreamedResponse[];
let carrier: ReturnType<typeof createTokenCarrier>;
beforeEach(async () => {
  dpopKey = await makeDpopKey();
  sentHeaders = [];
  responses = [];
  carrier = createTokenCarrier();
});

const responseOf = (statusCode: number, headers: Record<string, string> = {}) =>
  ({ statusCode, headers, body: { destroy: vi.fn() } }) as unknown as StreamedResponse;
const call = (key: DpopKey | undefined = dpopKey, target = TARGET, method = 'GET') =>
  carrier.send(
    { accessToken: 'at1', dpopKey: key },
    method,
    target as Parameters<typeof carrier.send>[2],
    async (headers) => {
      const headersByName: Record<string, string> = {};
      for (let index = 0; index < headers.length; index += 2) {
        headersByName[headers[index] ?? ''] = headers[index + 1] ?? '';
      }
      sentHeaders.push(headersByName);
      return responses.shift() ?? responseOf(200);
    },
  );
const sentNonces = () => sentHeaders.map(({ dpop = '' }) => decodeJwt(dpop).nonce);

test('sends a bearer token without a proof', async () => {
  await carrier.send({ accessToken: 'at1', dpopKey: undefined }, 'GET', TARGET as never, async (headers) => {
    expect(headers).toEqual(['authorization', 'Bearer at1']);
    return responseOf(200);
  });
});

test('sends a bound token with a new proof for each call', async () => {
  await call();
  await call();
  const [first, second] = sentHeaders.map(({ dpop = '' }) => decodeJwt(dpop));

  expect(sentHeaders[0]?.authorization).toBe('DPoP at1');
  expect(first).toMatchObject({ htm: 'GET', htu: 'https://platform.test/threads/current' });
  expect(second?.jti).not.toBe(first?.jti);
  expect(sentNonces()).toEqual([undefined, undefined]);
});

test.each(['DPoP error="use_dpop_nonce"', 'DPoP algs="ES256", error=use_dpop_nonce'])(
  'repeats the call with the nonce that the challenge %s requires, and sends that nonce from then on',
  async (challenge) => {
    const refused = responseOf(401, { 'www-authenticate': challenge, 'dpop-nonce': 'n1' });
    responses = [refused, responseOf(200), responseOf(200)];

    expect((await call()).statusCode).toBe(200);
    expect(refused.body.destroy).toHaveBeenCalledOnce();

    await call();
    expect(sentNonces()).toEqual([undefined, 'n1', 'n1']);
  },
);

test('names the method of the call in the proof', async () => {
  await call(dpopKey, TARGET, 'PATCH');
  expect(decodeJwt(sentHeaders[0]?.dpop ?? '').htm).toBe('PATCH');
});

test('uses the nonce of any response from then on', async () => {
  responses = [responseOf(401, { ...NONCE_CHALLENGE, 'dpop-nonce': 'n1' }), responseOf(200, { 'dpop-nonce': 'n2' })];
  await call();
  await call();

  expect(sentNonces()).toEqual([undefined, 'n1', 'n2']);
});

test.each([
  ['that requires the nonce that was sent', [responseOf(401, { ...NONCE_CHALLENGE, 'dpop-nonce': 'n1' })], 1],
  ['that names no nonce', [responseOf(401, NONCE_CHALLENGE)], 1],
  [
    'for another reason',
    [responseOf(401, { 'www-authenticate': 'DPoP error="invalid_token"', 'dpop-nonce': 'n9' })],
    1,
  ],
  ['with another status', [responseOf(400, { ...NONCE_CHALLENGE, 'dpop-nonce': 'n9' })], 1],
])('returns a refusal %s without another call', async (_what, platformResponses, calls) => {
  responses = [responseOf(200, { 'dpop-nonce': 'n1' })];
  await call();
  sentHeaders = [];
  responses = [...platformResponses];

  const refusal = await call();
  expect([sentHeaders.length, refusal]).toEqual([calls, platformResponses[0]]);
  expect(refusal.body.destroy).not.toHaveBeenCalled();
});

test('does not repeat the call for a second challenge in a row', async () => {
  responses = [
    responseOf(401, { ...NONCE_CHALLENGE, 'dpop-nonce': 'n1' }),
    responseOf(401, { ...NONCE_CHALLENGE, 'dpop-nonce': 'n2' }),
    responseOf(200),
  ];
  expect((await call()).statusCode).toBe(401);
  expect(sentNonces()).toEqual([undefined, 'n1']);
});

test('does not send the nonce of one platform to another', async () => {
  responses = [responseOf(200, { 'dpop-nonce': 'n1' })];
  await call();
  await call(dpopKey, { ...TARGET, origin: 'https://other.test' });
  await call();

  expect(sentNonces()).toEqual([undefined, undefined, 'n1']);
});

test('stores nonces for a bounded number of platforms', async () => {
  for (let number = 0; number < 1_001; number += 1) {
    responses = [responseOf(200, { 'dpop-nonce': `n${number}` })];
    await call(dpopKey, { ...TARGET, origin: `https://p${number}.test` });
  }
  sentHeaders = [];
  await call(dpopKey, { ...TARGET, origin: 'https://p0.test' });
  await call(dpopKey, { ...TARGET, origin: 'https://p1000.test' });

  expect(sentNonces()).toEqual([undefined, 'n1000']);
});
