import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  asciiForm,
  CALLBACK_URL_ADVICE,
  type CallbackUrlRule,
  checkCallbackUrl,
  checkCallbackUrls,
  findSimilarUrl,
  intendedCallbackUrl,
} from '../../../src/shared/provider/callback-url.ts';
import { anyText } from '../../support/any-text.ts';

const HOST = 'https://gatehouse.example.com';

describe('R71: each rule', () => {
  const refused: Record<Exclude<CallbackUrlRule, 'duplicate'>, string[]> = {
    not_absolute: [
      '',
      '/oauth/callback/platform',
      '//gatehouse.example.com/cb',
      'gatehouse.example.com/cb',
      'https:/gatehouse.example.com/cb',
      'https:gatehouse.example.com/cb',
      'https:///cb',
      'https://',
      'https://[::1',
      'https://host:99999/cb',
      'javascript:alert(1)',
      'mailto:a@example.com',
      'file://localhost/cb',
    ],
    not_https: [
      'http://gatehouse.example.com/cb',
      'http://127.0.0.1.example.com/cb',
      'http://localhost.example.com/cb',
      'http://10.0.0.1/cb',
      'http://0.0.0.0/cb',
      'ftp://gatehouse.example.com/cb',
      'myapp://callback/cb',
      'ws://localhost/cb',
    ],
    wildcard: ['https://*.example.com/cb', `${HOST}/*`, `${HOST}/cb?a=*`, `${HOST}/%2a`, `${HOST}/%2A`, '*'],
    fragment: [`${HOST}/cb#`, `${HOST}/cb#a`, `${HOST}#/cb`, '#'],
    userinfo: ['https://user@gatehouse.example.com/cb', 'https://a:b@gatehouse.example.com/', 'https://@host/cb'],
    dot_segments: [
      `${HOST}/../cb`,
      `${HOST}/a/..`,
      `${HOST}/./cb`,
      `${HOST}/a/.`,
      `${HOST}/..;/cb`,
      `${HOST}/..;a=b/cb`,
      `${HOST}/.;/cb`,
      `${HOST}/%2e%2e/cb`,
      `${HOST}/%2E./cb`,
      `${HOST}/.%2e/cb`,
      `${HOST}/%2e/cb`,
      `${HOST}/..%3b/cb`,
      `${HOST}/a%2f..%2fb`,
      `${HOST}/..%2Fcb`,
    ],
    backslash: [`${HOST}\\cb`, 'https:\\\\host\\cb', `${HOST}/%5ccb`, `${HOST}/a%5C..`, `${HOST}/cb?a=\\`],
    control: [
      ` ${HOST}/cb`,
      `${HOST}/cb `,
      `${HOST}/c b`,
      `${HOST}/c\tb`,
      `${HOST}/c\nb`,
      `${HOST}/cb\u0000`,
      `${HOST}/cb\u007f`,
      `${HOST}/cb\u0085`,
      `${HOST}/cb\u200b`,
      `${HOST}/cb\u202e`,
      `${HOST}/\ufeffcb`,
      `${HOST}/\u00a0`,
      `${HOST}/\ud800`,
      `${HOST}/%00`,
      `${HOST}/%0d%0aSet-Cookie:a`,
      `${HOST}/%1F`,
      `${HOST}/%7f`,
    ],
  };
  const table = Object.entries(refused).flatMap(([rule, urls]) => urls.map((url) => [rule, JSON.stringify(url), url]));
  test.each(table)('%s: %s', (rule, _shown, url) => {
    expect(checkCallbackUrl(url ?? '')).toBe(rule);
  });

  test.each([
    `${HOST}/oauth/callback/platform`,
    HOST,
    `${HOST}/`,
    `${HOST}:8443/cb`,
    `${HOST}/cb?tenant=a%20b`,
    `${HOST}/a..b/c.d/...`,
    `${HOST}/a;b/cb`,
    `${HOST}/cb?next=/../x`,
    'HTTPS://gatehouse.example.com/cb',
    'http://127.0.0.1:3000/cb',
    'http://127.8.8.8/cb',
    'http://[::1]:3000/cb',
    'http://localhost/cb',
    'http://app.localhost:3000/cb',
    'https://xn--bcher-kva.example/cb',
    'https://bücher.example/cb',
  ])('%s is accepted', (url) => {
    expect(checkCallbackUrl(url)).toBeUndefined();
  });
});

describe('R71: lists', () => {
  test('reports duplicates by position; URLs that differ in case or a slash are different', () => {
    const urls = [`${HOST}/cb`, `${HOST}/CB`, `${HOST}/cb/`, `${HOST}/cb`, 'http://x.example.com', `${HOST}/cb`];
    expect(checkCallbackUrls(urls)).toEqual([
      { position: 3, rule: 'duplicate' },
      { position: 4, rule: 'not_https' },
      { position: 5, rule: 'duplicate' },
    ]);
    expect(checkCallbackUrls([])).toEqual([]);
  });

  test('reports the rule of an invalid URL each time, not that it is a duplicate', () => {
    expect(checkCallbackUrls(['*', '*']).map(({ rule }) => rule)).toEqual(['wildcard', 'wildcard']);
  });
});

describe('R71: properties', () => {
  const piece = fc.constantFrom(
    ...['https://', 'http://', 'gatehouse.example.com', '127.0.0.1', '/', '//', '..', '.', '%2e', ';', '%2f', '%5c'],
    ...['\\', '@', '#', '?', '*', ' ', '\t', '\u200b', ':', '[', ']', 'cb', 'é', '%00', '%'],
  );
  const anything = fc.oneof(
    fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join('')),
    fc.array(piece, { maxLength: 6 }).map((pieces) => `${HOST}/${pieces.join('')}`),
    anyText(),
  );

  test('an accepted URL has the same host and path when a browser parses it', () => {
    fc.assert(
      fc.property(anything, (text) => {
        const rule = checkCallbackUrl(text);
        if (rule !== undefined) {
          expect(CALLBACK_URL_ADVICE[rule]).toBeTypeOf('string');
          return;
        }
        const url = new URL(text);
        expect(['https:', 'http:']).toContain(url.protocol);
        if (url.protocol === 'http:') expect(url.hostname).toMatch(/^(127\.|\[::1\]$|\[::ffff:7f|(.+\.)?localhost$)/);
        expect(url.username + url.password + url.hash).toBe('');
        const pathAsWritten = /^[a-z]+:\/\/[^/?]*([^?]*)/i.exec(text)?.[1] ?? '';
        expect(url.pathname.split('/')).toHaveLength((pathAsWritten || '/').split('/').length);
      }),
      { numRuns: 3_000 },
    );
  });

  test('finds a forbidden part at any position of a valid URL', () => {
    const forbidden = fc.constantFrom('*', '#', '\\', ' ', '\n', '\u0000', '\u202e', '%2a', '%5C', '%0A');
    const validUrl = `${HOST}/oauth/callback/platform?a=b`;
    fc.assert(
      fc.property(forbidden, fc.nat(validUrl.length), (forbiddenPart, at) => {
        expect(checkCallbackUrl(validUrl.slice(0, at) + forbiddenPart + validUrl.slice(at))).toBeDefined();
      }),
    );
  });
});

describe('a misspelled callback URL', () => {
  const callbackUrl = `${HOST}/oauth/callback/board`;

  test.each([
    `${callbackUrl}/`,
    `${callbackUrl}//`,
    `${callbackUrl}?`,
    `${callbackUrl}?x=1`,
    callbackUrl.replace('https:', 'http:'),
    callbackUrl.replace('https://', 'https://www.'),
    callbackUrl.replace('callback', 'Callback'),
    callbackUrl.replace('/oauth', '//oauth'),
    callbackUrl.toUpperCase(),
    callbackUrl.replace('/oauth', ':443/oauth'),
    callbackUrl.replace('/oauth', './oauth'),
    callbackUrl.replace('/oauth', '.:443/oauth'),
  ])('%s', (url) => {
    expect(intendedCallbackUrl(url, HOST)).toBe(callbackUrl);
    expect(findSimilarUrl(['https://other.example/cb', url], callbackUrl, HOST)).toBe(url);
  });

  test.each([
    callbackUrl,
    `${callbackUrl}/cb`,
    `${HOST}.example/oauth/callback/board`,
    'https://other.example/oauth/callback/board',
    HOST,
    '',
  ])('is not recognized in %s', (url) => expect(intendedCallbackUrl(url, HOST)).toBeUndefined());

  test('of another app is not reported', () => {
    expect(findSimilarUrl([`${HOST}/oauth/callback/chat/`], callbackUrl, HOST)).toBeUndefined();
  });
});

describe('the ASCII form of a callback URL', () => {
  test.each([
    [
      'a host in another script',
      'https://bücher.example/oauth/callback/a',
      'https://xn--bcher-kva.example/oauth/callback/a',
    ],
    ['a host of decomposed letters', 'https://bu\u0308cher.example/cb', 'https://xn--bcher-kva.example/cb'],
    ['a Cyrillic letter that looks like a Latin one', 'https://g\u0430te.example/cb', 'https://xn--gte-6cd.example/cb'],
    ['a host from right to left', 'https://דוגמה.example/cb', 'https://xn--6dbbec0c.example/cb'],
    ['ideographs with their own full stop', 'https://例え。example/cb', 'https://xn--r8jz45g.example/cb'],
    ['upper case', 'HTTPS://Example.TEST/Cb?A=b', 'https://example.test/Cb?A=b'],
    ['a final dot', 'https://example.test./cb', 'https://example.test/cb'],
    ['the default port', 'https://example.test:443/cb', 'https://example.test/cb'],
    ['a final dot before a port', 'https://example.test.:8443/cb', 'https://example.test:8443/cb'],
    ['a percent-encoded host', 'https://b%C3%BCcher.example/cb', 'https://xn--bcher-kva.example/cb'],
  ])('%s', (_name, url, ascii) => {
    expect(asciiForm(url)).toBe(ascii);
    expect(asciiForm(ascii)).toBeUndefined();
    // It is told, and never refused or changed.
    expect(checkCallbackUrl(url)).toBeUndefined();
  });

  test.each(['https://example.test:8443/%C3%BC/ü?x=Ü', 'http://127.0.0.1:3000/cb', 'http://[::1]/cb', 'no URL', ''])(
    'is not told for %s',
    (url) => expect(asciiForm(url)).toBeUndefined(),
  );

  test('leads from a list in another script to the callback URL of this server', () => {
    const href = 'https://xn--bcher-kva.example';
    const url = 'https://BÜCHER.example/oauth/callback/board/';
    expect(findSimilarUrl([url], `${href}/oauth/callback/board`, href)).toBe(url);
  });
});
