/** The stored beginning of a receiver's response: without secrets, for any response and at little cost. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createDelivery } from '../../../src/gatehouse/webhooks/delivery.ts';
import { createOpaqueToken } from '../../../src/shared/storage/opaque-token.ts';
import { withCheckDigit } from '../../support/bins.ts';
import { processorTimeOf } from '../../support/stopwatch.ts';

const MAX_BYTES = 64 * 1024;
const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

async function keptOf(body: string): Promise<string> {
  const deliver = createDelivery({
    webhooks: { target: async () => ({ url: 'https://hook.test/', secrets: [secret], enabled: true }) },
    outbound: { fetch: async () => new Response(body) },
    clock: Date.now,
  } as unknown as Parameters<typeof createDelivery>[0]);
  const message = { id: 'm1', webhook: 'w1', body: '{}' } as Parameters<typeof deliver>[0];
  return (await deliver(message, { manual: true })).responseBody ?? '';
}

test.each(['eyJ-', 'eyJ.', 'eyJ-.', '4 ', '4444 ', '4', 'whsec_', 'gthr_', '0123abcd-', 'a'])(
  '64 KiB of %j take less than 50 ms of CPU time',
  async (part) => {
    const body = part.repeat(MAX_BYTES / part.length);
    expect(await processorTimeOf(() => keptOf(body))).toBeLessThan(50);
  },
);

/** A secret, with the number of its first characters that are not secret. */
type Secret = [text: string, open: number];
const randomText = (alphabet: string, limits: { minLength: number; maxLength: number }) =>
  fc.string({ unit: fc.constantFrom(...alphabet), ...limits });
const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
const jwt = randomText(BASE64, { minLength: 40, maxLength: 5_000 }).map((text): Secret => [`eyJ${text}.${text}.x`, 3]);
const token = fc.constantFrom('gthr_', 'gtha_', 'gthl_').map((prefix): Secret => [createOpaqueToken(prefix).text, 16]);
const card = fc
  .tuple(randomText('0123456789', { minLength: 14, maxLength: 14 }), fc.constantFrom('', ' ', '-'))
  .map(([digits, mark]): Secret => [[...withCheckDigit(`4${digits}`)].join(mark), 0]);
const anySecret = fc.oneof(jwt, token, card, fc.constant<Secret>([secret, 6]));
const filler = fc.integer({ min: 0, max: 4_200 }).map((length) => 'some words, '.repeat(350).slice(0, length));

test('stores no part of a secret, wherever the response is cut', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(filler, anySecret), { maxLength: 6 }), async (parts) => {
      const kept = await keptOf(parts.map(([words, [text]]) => `${words} ${text}; `).join(''));
      expect(kept.length).toBeLessThanOrEqual(1_000);
      // A shorter part may be in the words by chance.
      for (const [, [text, open]] of parts) expect(kept).not.toContain(text.slice(open, open + 10));
    }),
    { numRuns: 500 },
  );
});

test('does not store a secret that the search cuts off, even if a long secret before it is removed', async () => {
  const words = 'some words, '.repeat(10);
  const digits = withCheckDigit('400000123456789012');
  const cutOff: Secret[] = [
    [digits, 0],
    [[...digits].join(' '), 0],
    [secret, 6],
    // Capitals and digits, since two letters of another secret could be in the words.
    [`gthr_${'0A1B2C3D4E5'.padEnd(60, 'Z9Y8X7W6')}`, 16],
  ];
  for (const [text, open] of cutOff) {
    for (let cut = 1; cut < text.length; cut += 1) {
      const before = `${words}eyJ${'a'.repeat(4_096 - words.length - cut - 5)}; `;
      const kept = await keptOf(`${before}${text}, ${words}`);
      expect(kept).toContain('some words, some words');
      expect(kept).not.toContain(text.slice(open, open + 1 + Math.min(cut, 2)));
    }
  }
});
