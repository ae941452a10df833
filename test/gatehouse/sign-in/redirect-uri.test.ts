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

test.each([
  ['in another script', 'https://bücher.example/oauth/callback/a', 'https://xn--bcher-kva.example/oauth/callback/a'],
  ['in upper case', 'https://GATE.example/oauth/callback/a', 'https://gate.example/oauth/callback/a'],
  ['with a final dot', 'https://gate.example./oauth/callback/a', 'https://gate.example/oauth/callback/a'],
  ['with the default port', 'https://gate.example:443/oauth/callback/a', 'https://gate.example/oauth/callback/a'],
])('says that the list has the same URL with its host %s', (_name, registered, sent) => {
  expect(describeRedirectUri(sent, ['https://other.test/', registered])).toBe(
    `${sent} is not in the app’s list, which has it with another form of the host name: ${registered}`,
  );
});

test('shows the ASCII form of a host with a letter that looks like another one', () => {
  const sent = 'https://gate.example/oauth/callback/a';
  expect(describeRedirectUri(sent, [sent.replace('a', '\u0430')])).toContain(
    'https://g\u0430te.example/oauth/callback/a (for browsers https://xn--gte-6cd.example/oauth/callback/a)',
  );
});

test('says that the list is empty', () => {
  expect(describeWith()).toBe(`${SENT} is sent, and the app’s list is empty`);
});
