import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type CallbackUrlRule,
  checkCallbackUrl,
  checkCallbackUrls,
  urlsIn,
} from '../../../src/shared/provider/callback-url.ts';
import { asBrowsersWrite, uriAdvice } from '../../../src/shared/provider/url-spelling.ts';
import { anyText } from '../../support/any-text.ts';
import { processorTimeOf } from '../../support/stopwatch.ts';

const HOST = 'https://gatehouse.example.com';

describe('R71: each rule', () => {
  const refused: Record<Exclude<CallbackUrlRule, 'duplicate' | 'spelling' | 'own_host'>, string[]> = {
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
      'https://./cb',
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
    several: [`${HOST}/a,${HOST}/b`, `${HOST}/a;http://localhost/b`],
    escape: [`${HOST}/%zz`, `${HOST}/%`, `${HOST}/cb?a=%4`, `${HOST}/%E4%b`],
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
    expect(checkCallbackUrl(url ?? '')?.rule).toBe(rule);
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
    `${HOST}/cb?next=https://other.example/,https://x.example/`,
    `${HOST}/%C3%BC/%c3%bc/~a'b`,
    'http://127.0.0.1:3000/cb',
    'http://127.8.8.8/cb',
    'http://[::1]:3000/cb',
    'http://localhost/cb',
    'http://app.localhost:3000/cb',
    'https://xn--bcher-kva.example/cb',
  ])('%s is accepted', (url) => {
    expect(checkCallbackUrl(url)).toBeUndefined();
  });
});

describe('R71: lists', () => {
  test('reports duplicates by position; URLs that differ in case or a slash are different', () => {
    const urls = [`${HOST}/cb`, `${HOST}/CB`, `${HOST}/cb/`, `${HOST}/cb`, 'http://x.example.com', `${HOST}/cb`];
    expect(checkCallbackUrls(urls).map(({ position, rule }) => ({ position, rule }))).toEqual([
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
        const fault = checkCallbackUrl(text);
        if (fault) {
          expect(fault.detail).toMatch(/^[A-Z].*\.$/);
          return;
        }
        const url = new URL(text);
        expect(['https:', 'http:']).toContain(url.protocol);
        if (url.protocol === 'http:') expect(url.hostname).toMatch(/^(127\.|\[::1\]$|\[::ffff:7f|(.+\.)?localhost$)/);
        expect(url.username + url.password + url.hash).toBe('');
        expect([url.href, url.origin]).toContain(text);
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

describe('R71 the spelling of a URL', () => {
  const spellings: [name: string, url: string, written: string][] = [
    ['a host in another script', 'https://bücher.example/cb', 'https://xn--bcher-kva.example/cb'],
    ['a host of decomposed letters', 'https://bu\u0308cher.example/cb', 'https://xn--bcher-kva.example/cb'],
    ['a Cyrillic letter that looks like a Latin one', 'https://g\u0430te.example/cb', 'https://xn--gte-6cd.example/cb'],
    ['a host from right to left', 'https://דוגמה.example/cb', 'https://xn--6dbbec0c.example/cb'],
    ['ideographs with their own full stop', 'https://例え。example/cb', 'https://xn--r8jz45g.example/cb'],
    ['upper case', 'HTTPS://Example.TEST/Cb?A=b', 'https://example.test/Cb?A=b'],
    ['a final dot', 'https://example.test./cb', 'https://example.test/cb'],
    ['the default port', 'https://example.test:443/cb', 'https://example.test/cb'],
    ['an empty port', 'https://example.test:/cb', 'https://example.test/cb'],
    ['a port with a zero', 'https://example.test:08443/cb', 'https://example.test:8443/cb'],
    ['a final dot before a port', 'https://example.test.:8443/cb', 'https://example.test:8443/cb'],
    ['a percent-encoded host', 'https://b%C3%BCcher.example/cb', 'https://xn--bcher-kva.example/cb'],
    ['an address in another form', 'http://127.1/cb', 'http://127.0.0.1/cb'],
    ['letters of another script in the path', 'https://example.test/ü?q=ü', 'https://example.test/%C3%BC?q=%C3%BC'],
    ['quotes', 'https://example.test/"a"', 'https://example.test/%22a%22'],
    ['a query without a path', 'https://example.test?a=b', 'https://example.test/?a=b'],
  ];
  test.each(spellings)('%s is refused, and the right one named', (_name, url, written) => {
    const fault = checkCallbackUrl(url);
    expect(fault).toMatchObject({ rule: 'spelling', suggestedUrl: written });
    expect(fault?.detail).toContain(`Browsers write this URL as ${written.replace(/\?.*/, '?…')}, `);
    expect(checkCallbackUrl(written)).toBeUndefined();
  });

  test('R22 the advice does not repeat the query, which may have a secret', () => {
    for (const url of ['HTTPS://a.test/cb?token=secret', 'https://a.test/cb?token="secret"', 'https://ü.test?secret']) {
      expect(checkCallbackUrl(url)).toMatchObject({ rule: 'spelling', detail: expect.not.stringContaining('secret') });
    }
    expect(checkCallbackUrl('https://a.test/cb?q=ü')?.detail).toContain('Browsers write its query in another way');
  });

  /** Valid URLs as programs build them. */
  const written = fc
    .webUrl({ validSchemes: ['https'], withQueryParameters: true })
    .map((url) => new URL(url).href)
    .filter((url) => checkCallbackUrl(url) === undefined);

  test('every URL that `URL` has written and no other rule refuses is accepted', () => {
    fc.assert(
      fc.property(fc.webUrl({ validSchemes: ['https'], withQueryParameters: true }), (text) => {
        const { href } = new URL(text);
        expect(checkCallbackUrl(href)?.rule ?? 'none').toMatch(/^(none|wildcard|control|backslash|dot_segments)$/);
      }),
      { numRuns: 1_000 },
    );
  });

  test('every other spelling of a URL is refused with that URL, which is accepted', () => {
    const respell = fc.constantFrom(
      (url: URL) => url.href.replace('https:', 'HTTPS:'),
      (url: URL) => url.href.replace(url.host, url.host.toUpperCase()),
      (url: URL) => (url.port === '' ? url.href.replace(url.host, `${url.host}:443`) : url.href),
      (url: URL) => (url.port === '' ? url.href.replace(url.host, `${url.host}.`) : url.href),
      (url: URL) =>
        url.href.replace(url.hostname, [...url.hostname].map((c) => `%${c.charCodeAt(0).toString(16)}`).join('')),
    );
    fc.assert(
      fc.property(written, respell, (href, change) => {
        const text = change(new URL(href));
        if (text === href) return;
        const fault = checkCallbackUrl(text);
        if (fault?.rule === 'wildcard' || fault?.rule === 'control') return;
        expect(fault).toMatchObject({ rule: 'spelling', suggestedUrl: href });
      }),
      { numRuns: 1_000 },
    );
  });

  test('what is suggested for any text is written so already', () => {
    fc.assert(
      fc.property(fc.oneof(anyText(), fc.string({ unit: 'grapheme' })), (text) => {
        const once = asBrowsersWrite(`https://example.test/${text}`);
        if (once !== undefined) expect(asBrowsersWrite(once)).toBe(once);
      }),
      { numRuns: 2_000 },
    );
  });
});

describe('R71 on the host of this Gatehouse', () => {
  const callbackUrl = `${HOST}/oauth/callback/board`;
  const check = (urls: string[], publicHref = HOST) =>
    checkCallbackUrls(urls, { callbackUrl: `${publicHref}/oauth/callback/board`, publicHref });

  test.each([
    `${callbackUrl}/`,
    `${callbackUrl}//`,
    `${callbackUrl}?`,
    `${callbackUrl}?x=1`,
    `${callbackUrl}#x`,
    `${callbackUrl}s`,
    ` ${callbackUrl}`,
    callbackUrl.replace('https:', 'http:'),
    callbackUrl.replace('https://', 'https://www.'),
    callbackUrl.replace('callback', 'Callback'),
    callbackUrl.replace('board', 'Board'),
    callbackUrl.replace('board', 'chat'),
    callbackUrl.replace('/oauth', '//oauth'),
    callbackUrl.replace('/oauth', '/x/../oauth'),
    callbackUrl.toUpperCase(),
    callbackUrl.replace('/oauth', ':443/oauth'),
    callbackUrl.replace('/oauth', './oauth'),
    callbackUrl.replace('/oauth', '.:443/oauth'),
    `${HOST}/cb`,
    HOST,
  ])('%s is refused with the right URL', (url) => {
    expect(check(['https://other.example/cb', url])).toEqual([
      { position: 1, rule: 'own_host', suggestedUrl: callbackUrl, detail: expect.stringContaining(callbackUrl) },
    ]);
  });

  test('a second URL is refused, and to be removed', () => {
    const [fault, ...others] = check([callbackUrl, `${callbackUrl}/`]);
    expect([fault, others]).toEqual([expect.objectContaining({ position: 1, rule: 'own_host' }), []]);
    expect(fault?.detail).toContain('Remove this URL.');
    expect(fault).not.toHaveProperty('suggestedUrl');
  });

  test('a URL without the path of PUBLIC_URL is refused, until the list has the right one', () => {
    const publicHref = `${HOST}/gate`;
    const own = `${publicHref}/oauth/callback/board`;
    expect(check([callbackUrl], publicHref)).toMatchObject([{ rule: 'own_host', suggestedUrl: own }]);
    expect(check([callbackUrl, own], publicHref)).toEqual([]);
    expect(check([`${HOST}/other/cb`, `${HOST}/gates/oauth/cb`], publicHref)).toEqual([]);
  });

  test.each([
    callbackUrl,
    `${HOST}.example/oauth/callback/board`,
    'https://other.example/oauth/callback/board',
    `${HOST}:8443/oauth/callback/board`,
  ])('%s is accepted', (url) => expect(check([url])).toEqual([]));

  test('a host in another script leads to its ASCII form', () => {
    const href = 'https://xn--bcher-kva.example';
    expect(check(['https://BÜCHER.example/oauth/callback/board/'], href)).toMatchObject([
      { rule: 'own_host', suggestedUrl: `${href}/oauth/callback/board` },
    ]);
  });
});

describe('a pasted list', () => {
  test.each([
    ['lines', 'https://a.test/1\r\nhttps://a.test/2\n\n'],
    ['spaces and tabs', ' https://a.test/1 \t https://a.test/2'],
    ['commas', 'https://a.test/1,https://a.test/2'],
    ['commas and lines', 'https://a.test/1,\nhttps://a.test/2,'],
    ['semicolons', 'https://a.test/1; https://a.test/2;'],
    ['quotes', '"https://a.test/1", "https://a.test/2";'],
    ['JSON', '["https://a.test/1","https://a.test/2"]'],
    ['JSON with lines', '[\n  "https://a.test/1",\n  "https://a.test/2",\n]'],
    ['angle brackets', '<https://a.test/1>, <https://a.test/2>'],
  ])('of %s is two URLs', (_name, text) => {
    expect(urlsIn(text)).toEqual(['https://a.test/1', 'https://a.test/2']);
  });

  test('with a query has no comma at the end of a URL', () => {
    expect(urlsIn('https://a.test/?x=1, "https://b.test/?y=2",')).toEqual([
      'https://a.test/?x=1',
      'https://b.test/?y=2',
    ]);
  });

  test.each(['https://a.test/x,y;z', 'https://a.test/(1)', 'https://a.test/?next=a,https://b.test/', 'https://[::1]'])(
    '%s is one URL',
    (url) => expect(urlsIn(url)).toEqual([url]),
  );

  test('is the list again, however it was joined', () => {
    const url = fc.webUrl({ validSchemes: ['https'] }).filter((text) => !/[,;]/.test(text));
    const separator = fc.constantFrom('\n', '\r\n', ' ', ', ', ';', ',\n');
    fc.assert(
      fc.property(fc.array(url, { minLength: 1 }), separator, (urls, between) => {
        expect(urlsIn(urls.join(between))).toEqual(urls);
      }),
    );
  });
});

describe('R89 the time is linear for', () => {
  test.each([
    ['commas', 'https://a.test/?', ','],
    ['quotes', 'https://a.test/', '"'],
    ['slashes', 'https://a.test/', '/'],
    ['question marks', 'https://a.test/', '?'],
    ['dots in the host', 'https://a', '.'],
  ])('%s', async (_name, beginning, character) => {
    const textOf = (length: number) => `${beginning}${character.repeat(length)}x`;
    const timeFor = (text: string) =>
      processorTimeOf(() => {
        urlsIn(text);
        checkCallbackUrls([text], { callbackUrl: 'https://b.test/cb', publicHref: 'https://b.test' });
      });
    // Four times the text takes about four times as long; if the time were quadratic, it would be sixteen times.
    expect(await timeFor(textOf(32_000))).toBeLessThan(9 * (await timeFor(textOf(8_000))) + 20);
  });
});

describe('a URI that is not compared', () => {
  test.each([
    ['https://pl\u0430tform.test/v1', 'Write it in ASCII, as https://xn--pltform-3fg.test/v1.'],
    ['urn:ex\u0430mple', 'Write it in ASCII, as urn:ex%D0%B0mple.'],
    ['https://a.test/%zz', 'After each "%"'],
    ['https://ü.test/?token=secret', 'as https://xn--tda.test/?….'],
    ['https://user:secret@ü.test/', 'as https://…@xn--tda.test/.'],
    ['https://ü.test/#secret', 'as https://xn--tda.test/#….'],
    ['https://a.test/#secretü', 'Write what follows the path in ASCII.'],
    ['https://a.test/?token=secretü', 'Write what follows the path in ASCII.'],
  ])('%s', (text, advice) => {
    expect(uriAdvice(text)).toContain(advice);
    expect(uriAdvice(text)).not.toContain('secret');
  });

  test.each(['https://A.test:443/%C3%BC', 'urn:example:a', 'https://a.test/{tenantid}/v2'])(
    '%s may be written so',
    (text) => expect(uriAdvice(text)).toBeUndefined(),
  );
});
