/**
 * R85, R86: the URLs that are refused for their digits. card-numbers.long.test.ts shows that no digits are stored or
 * sent.
 */
import type { Request, Response } from 'express';
import { describe, expect, test } from 'vitest';
import { cardNumberGuard, decodedForms } from '../../../src/shared/http/card-numbers.ts';

const CARD = '4571736012345674';
const percentEncoded = (times: number) => {
  let text = [...CARD].map((digit) => `%3${digit}`).join('');
  for (let count = 1; count < times; count += 1) text = text.replaceAll('%', '%25');
  return text;
};

/** @returns the code with which the URL is refused, or undefined */
function refusal(url: string, basePath = ''): string | undefined {
  const guard = cardNumberGuard({ basePath });
  const [path = ''] = url.split('?');
  let failure: { code?: string; detail?: string } | undefined;
  guard({ path, originalUrl: url } as Request, {} as Response, (error?: unknown) => {
    failure = error as typeof failure;
  });
  if (failure) expect(failure.detail).toBe('The URL holds more digits of a card than Gatehouse may see. Remove them.');
  return failure?.code;
}

describe('a card number in a URL', () => {
  test.each([
    ['/connections?x=1', undefined],
    [`/connections?x=${CARD}`, 'invalid_request'],
    [`/connections/${CARD}`, 'invalid_request'],
    [`/bin/${CARD}`, 'invalid_bin'],
    [`/bin/457173?x=${CARD}`, 'invalid_bin'],
    [`/bin?x=${CARD}`, 'invalid_request'],
    [`/binx/${CARD}`, 'invalid_request'],
    [`/x/bin/${CARD}`, 'invalid_request'],
    ['/bin/457173', undefined],
  ])('%s: %s', (url, code) => {
    expect(refusal(url)).toBe(code);
  });

  test('is found behind up to three rounds of percent-encoding', () => {
    expect([1, 2, 3].map((times) => refusal(`/x?a=${percentEncoded(times)}`))).toEqual(
      Array(3).fill('invalid_request'),
    );
    expect(refusal(`/x?a=${CARD.slice(0, 4)}+${CARD.slice(4)}`)).toBe('invalid_request');
  });

  test.each([
    [`/oauth/callback/platform?code=${CARD}`, undefined],
    [`/oauth/callback/${CARD}`, 'invalid_request'],
    [`/sign-in?return_to=/x?${CARD}`, undefined],
    [`/sign-in/${CARD}`, 'invalid_request'],
    [`/x/oauth/callback/?code=${CARD}`, 'invalid_request'],
    [`/x/sign-in?x=${CARD}`, 'invalid_request'],
    [`/oauth/callback?code=${CARD}`, 'invalid_request'],
  ])('a route that checks its own parameters gets the query, but no card number in its path: %s', (url, code) => {
    expect(refusal(url)).toBe(code);
  });

  test('below a base path, and nowhere else', () => {
    expect(refusal(`/gate/bin/${CARD}`, '/gate')).toBe('invalid_bin');
    expect(refusal(`/bin/${CARD}`, '/gate')).toBe('invalid_request');
    expect(refusal(`/gate/sign-in?return_to=${CARD}`, '/gate')).toBeUndefined();
    expect(refusal(`/gate/oauth/callback/platform?state=${CARD}`, '/gate')).toBeUndefined();
    expect(refusal(`/sign-in?return_to=${CARD}`, '/gate')).toBe('invalid_request');
  });
});

describe('the decoded forms of a text', () => {
  test.each([
    ['plain', ['plain']],
    ['%41', ['%41', 'A']],
    ['%25252541', ['%25252541', '%252541', '%2541', '%41']],
    ['%41+b', ['%41+b', '%41 b', 'A+b', 'A b']],
    ['a+b+c', ['a+b+c', 'a b c']],
    // A bad escape hides nothing next to it.
    ['%zz%41', ['%zz%41', '%zzA', '%zzA', '%zzA']],
    // Characters of several bytes are decoded as a whole.
    ['%EF%BC%94', ['%EF%BC%94', '４']],
    ['%e2%82%ac5', ['%e2%82%ac5', '€5']],
  ])('%s', (text, forms) => {
    expect(decodedForms(text)).toEqual(forms);
  });
});
