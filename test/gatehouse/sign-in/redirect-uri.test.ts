/** The words that compare the callback URL that is sent with the app's list. */
import { expect, test } from 'vitest';
import { describeRedirectUri } from '../../../src/gatehouse/sign-in/start.ts';

const SENT = 'https://gatehouse.test/oauth/callback/platform';
const describeWith = (...callbackUrls: string[]) => describeRedirectUri(SENT, callbackUrls);

test('says that a callback URL is in the list', () => {
  expect(describeWith('https://other.test/', SENT)).toBe(`${SENT} is in the app’s list, character by character`);
});

test('names the most similar entry, and the first difference', () => {
  const similar = `${SENT}s`;
  const words = `nearest is ${similar}: character 47 is its end where the registered one has "s"`;
  const description = `${SENT} is not in the app’s list; ${words}`;
  expect(describeWith('https://other.test/', similar)).toBe(description);
  expect(describeWith(similar, 'https://other.test/')).toBe(description);

  expect(describeWith(SENT.replace('callback', 'Callback'))).toContain(
    'character 30 is "c" where the registered one has "C"',
  );
  expect(describeWith(SENT.slice(0, -1))).toContain('character 46 is "m" where the registered one has its end');
});

test('says that the list is empty', () => {
  expect(describeWith()).toBe(`${SENT} is sent, and the app’s list is empty`);
});
