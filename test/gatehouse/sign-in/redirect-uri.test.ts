/** Compares the callback URL that is sent with the app's list. */
import { expect, test } from 'vitest';
import { describeRedirectUri } from '../../../src/gatehouse/sign-in/start.ts';

const SENT = 'https://gatehouse.test/oauth/callback/platform';
const compared = (...callbackUrls: string[]) => describeRedirectUri(SENT, callbackUrls);

test('says that a callback URL is in the list', () => {
  expect(compared('https://other.test/', SENT)).toBe(`${SENT} is in the app’s list, character by character`);
});

test('names the most similar entry, and the first difference', () => {
  const near = `${SENT}s`;
  const words = `nearest is ${near}: character 47 is its end where the registered one has "s"`;
  for (const list of [
    ['https://other.test/', near],
    [near, 'https://other.test/'],
  ]) {
    expect(compared(...list)).toBe(`${SENT} is not in the app’s list; ${words}`);
  }
  expect(compared(SENT.replace('callback', 'Callback'))).toContain(
    'character 30 is "c" where the registered one has "C"',
  );
  expect(compared(SENT.slice(0, -1))).toContain('character 46 is "m" where the registered one has its end');
});

test('says that the list is empty', () => {
  expect(compared()).toBe(`${SENT} is sent, and the app’s list is empty`);
});
