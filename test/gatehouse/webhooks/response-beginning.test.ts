/** The beginning of a receiver's response that is stored: without secrets, for any response and at little cost. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createDelivery } from '../../../src/gatehouse/webhooks/delivery.ts';
import { createOpaqueToken } from '../../../src/shared/storage/opaque-token.ts';
import { withCheckDigit } from '../../support/bins.ts';
import { processorTimeOf } from '../../support/stopwatch.ts';

const MAX_BYTES = 64 * 1024;
const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

async function storedBeginningOf(body: string): Promise<string> {
  const deliver = createDelivery({
    webhooks: { target: async () => ({ url: 'https://hook.test/', secrets: [secret], disabled: false }) },
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
    expect(await processorTimeOf(() => storedBeginningOf(body))).toBeLessThan(50);
  },
);

interface Secret {
  readonly text: string;
  /** The number of characters at the start that are not secret, and are stored. */
  readonly shownCharacters: number;
}
const randomText = (alphabet: string, limits: { minLength: number; maxLength: number }) =>
  fc.string({ unit: fc.constantFrom(...alphabet), ...limits });
const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
const jwt = randomText(BASE64, { minLength: 40, maxLength: 5_000 }).map(
  (text): Secret => ({ text: `eyJ${text}.${text}.x`, shownCharacters: 3 }),
);
const token = fc
  .constantFrom('gthr_', 'gtha_', 'gthl_')
  .map((prefix): Secret => ({ text: createOpaqueToken(prefix).text, shownCharacters: 16 }));
const card = fc
  .tuple(randomText('0123456789', { minLength: 14, maxLength: 14 }), fc.constantFrom('', ' ', '-'))
  .map(([digits, separator]): Secret => {
    return { text: [...withCheckDigit(`4${digits}`)].join(separator), shownCharacters: 0 };
  });
const anySecret = fc.oneof(jwt, token, card, fc.constant<Secret>({ text: secret, shownCharacters: 6 }));
const filler = fc.integer({ min: 0, max: 4_200 }).map((length) => 'some words, '.repeat(350).slice(0, length));

test('stores no part of a secret, wherever the response is cut', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(filler, anySecret), { maxLength: 6 }), async (parts) => {
      const response = parts.map(([words, { text }]) => `${words} ${text}; `).join('');

      const stored = await storedBeginningOf(response);

      expect(stored.length).toBeLessThanOrEqual(1_000);
      for (const [, { text, shownCharacters }] of parts) {
        // A part of fewer than ten characters may be in the words by chance.
        expect(stored).not.toContain(text.slice(shownCharacters, shownCharacters + 10));
      }
    }),
    { numRuns: 500 },
  );
});

test('does not store a secret of which only the beginning is searched, even if a long secret before it is removed', async () => {
  const SEARCHED_CHARACTERS = 4_096;
  const words = 'some words, '.repeat(10);
  const digits = withCheckDigit('400000123456789012');
  const secrets: Secret[] = [
    { text: digits, shownCharacters: 0 },
    { text: [...digits].join(' '), shownCharacters: 0 },
    { text: secret, shownCharacters: 6 },
    // Capitals and digits, since two letters of another secret could be in the words.
    { text: `gthr_${'0A1B2C3D4E5'.padEnd(60, 'Z9Y8X7W6')}`, shownCharacters: 16 },
  ];
  for (const { text, shownCharacters } of secrets) {
    for (let searchedOfSecret = 1; searchedOfSecret < text.length; searchedOfSecret += 1) {
      // A JWT fills the searched part up to the secret; "eyJ" and "; " are five characters.
      const jwtLength = SEARCHED_CHARACTERS - words.length - searchedOfSecret - 5;
      const response = `${words}eyJ${'a'.repeat(jwtLength)}; ${text}, ${words}`;

      const stored = await storedBeginningOf(response);

      expect(stored).toContain('some words, some words');
      const secretCharacters = 1 + Math.min(searchedOfSecret, 2);
      expect(stored).not.toContain(text.slice(shownCharacters, shownCharacters + secretCharacters));
    }
  }
});
