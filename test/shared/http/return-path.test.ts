/** R70 and R72: no return path in a request leads to another site. */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { localPath, returnTarget } from '../../../src/shared/http/return-path.ts';
import { anyText } from '../../support/any-text.ts';
import { createUserAgent } from '../../support/browserless.ts';
import { signIn, startSite, type TestSite } from '../../support/gatehouse.ts';
import { ACCEPT_HTML, sendRequest } from '../../support/send-request.ts';

const ORIGIN = 'http://127.0.0.1:3000';
const SITE = { origin: ORIGIN, home: '/' };

/** Ways to begin a URL of another site, each combined with each of HOSTS. */
const STARTS = [
  '//',
  '///',
  '////',
  '\\\\',
  '/\\',
  '\\/',
  '/\\/',
  '//\\',
  '/\t/',
  '/\n/',
  '/\r/',
  '\t//',
  ' //',
  '/ /',
  '/\u00a0/',
  '/\u200b/',
  '/\u2028/',
  '/\u0000/',
  '/%09/',
  '/%2f/',
  '/%5c/',
  '/%2F%2F',
  '/%5C%5C',
  '/./%2f/',
  '/.//',
  '/..//',
  '/x/..//',
  '/x/../..//',
  '/;@',
  '/@',
  '@',
  '//@',
  '//x@',
  '//127.0.0.1:3000@',
  '//127.0.0.1:3000\\@',
  'http://',
  'https://',
  'HTTP://',
  'http:/',
  'http:',
  'https:',
  'http:\\\\',
  'http:///',
  'hTTps:/\\',
  'ftp://',
  'javascript:',
  'java\tscript:',
  'javascript://',
  'data:text/html,',
  'vbscript:',
  'file:///',
  'blob:',
  'about:',
  'view-source:',
  '\u2215\u2215',
  '\uff0f\uff0f',
  '/\uff0f',
  '/\u2215',
  '\u3002',
  '/.\u3002/',
  '.',
  '..//',
  '?//',
  '#//',
  '/?//',
  '/#//',
  '/%00/',
  '/%0d%0aLocation:%20//',
  '/\r\nLocation: //',
  '',
  '//[',
  '//]',
  '//%2e%2e@',
  '/%20/',
];
const HOSTS = [
  'evil.example',
  'evil.example/%2e%2e',
  'evil\u3002example',
  '2130706434',
  '0x7f000002',
  '[::1]:81',
  '127.0.0.1:3000.evil.example',
];
const FORMS = STARTS.flatMap((start) => HOSTS.map((host) => start + host));
const encodeOnce = (text: string) => encodeURIComponent(text.toWellFormed());
const ENCODED = FORMS.flatMap((form) => [form, encodeOnce(form), encodeOnce(encodeOnce(form))]);

/** Returns the origin where a browser on a page of ORIGIN would arrive. */
const originAfter = (location: string) => new URL(location, `${ORIGIN}/sign-in`).origin;

describe('R70 the rules', () => {
  test(`${FORMS.length} forms, raw, once and twice encoded, stay on the site`, () => {
    expect(FORMS.length).toBeGreaterThan(500);
    for (const form of ENCODED) {
      const target = returnTarget(form, SITE, []);
      expect(originAfter(target), form).toBe(ORIGIN);
      expect(target, form).toMatch(/^\/(?![/\\])/);
      // The path also stays on the site for a program that decodes once more.
      expect(target, form).not.toMatch(/^\/(%2f|%5c|\.\/|\s)/i);
    }
  });

  test('any text stays on the site', () => {
    const piece = fc.constantFrom(
      '/',
      '\\',
      '//',
      '@',
      ':',
      '.',
      '..',
      '%2f',
      '%5c',
      '%09',
      '\t',
      '\n',
      '?',
      '#',
      'http:',
      'evil.example',
      ';',
      'x',
    );
    const text = fc.oneof(
      anyText(),
      fc.webUrl(),
      fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join('')),
      fc.array(piece, { maxLength: 12 }).map((pieces) => `/${pieces.join('')}`),
    );
    fc.assert(
      fc.property(text, (requested) => {
        const path = localPath(requested, SITE);
        if (path === undefined) return;
        expect(originAfter(path)).toBe(ORIGIN);
        // A result is also the result for itself: a second parser reads the same path.
        expect(localPath(path, SITE)).toBe(path);
        expect(path).toMatch(/^\/(?![/\\])[^\s\\]*$/);
      }),
      { numRuns: 20_000 },
    );
  });

  test('plain local paths pass unchanged', () => {
    for (const path of [
      '/',
      '/connections',
      '/connections/platform?a=b&c=%2Fd#e',
      '/x/y.z',
      '/?q=http://evil.example',
      '/%E2%82%AC',
    ]) {
      expect(localPath(path, SITE)).toBe(path);
    }
    fc.assert(
      fc.property(fc.array(fc.stringMatching(/^[a-z0-9_-]{1,8}$/), { minLength: 1, maxLength: 5 }), (parts) => {
        const path = `/${parts.join('/')}`;
        expect(localPath(path, SITE)).toBe(path);
      }),
    );
  });

  test('registered return URLs pass only if every character matches', () => {
    const registered = ['https://app.example/done?x=1'];
    expect(returnTarget('https://app.example/done?x=1', SITE, registered)).toBe('https://app.example/done?x=1');
    for (const similar of [
      'https://app.example/done?x=1#',
      'https://app.example/done',
      'https://APP.example/done?x=1',
      ' https://app.example/done?x=1',
      'https://app.example/done?x=1&y',
      'https://app.example:443/done?x=1',
    ]) {
      expect(returnTarget(similar, SITE, registered), similar).toBe('/');
    }
  });

  test.each([undefined, null, 7, ['/x'], { path: '/x' }, '', `/${'x'.repeat(2_000)}`])(
    '%j is not a path',
    (requested) => {
      expect(returnTarget(requested, SITE, [])).toBe('/');
    },
  );

  test('R86 a card number is dropped in every spelling', () => {
    for (const spelling of [
      '4571736012345674',
      '4571%37360123456%374',
      '%34%35%37%31736012345674',
      '%2534571736012345674',
    ]) {
      expect(returnTarget(`/x?n=${spelling}`, SITE, []), spelling).toBe('/');
    }
  });
});

describe('R70 over HTTP', () => {
  let site: TestSite;
  beforeAll(async () => {
    site = await startSite();
  });
  afterAll(() => site.close());

  test('every sign-in starts at the provider, whatever return_to holds', async () => {
    const sample = ENCODED.filter((_form, index) => index % 7 === 0);
    for (const form of sample) {
      const url = `${site.url}/sign-in?return_to=${encodeOnce(form)}`;
      const { status, headers } = await sendRequest(url, { headers: ACCEPT_HTML });
      expect(status, form).toBe(303);
      expect(new URL(headers.location ?? '').origin, form).toBe(site.sandbox.issuer);
    }
  });

  test.each([
    '//evil.example',
    '/\\evil.example',
    'https://evil.example/',
    '/%09/evil.example',
    '/.//evil.example',
    'javascript:alert(1)',
  ])('the end of a sign-in with return_to=%s stays on the site', async (form) => {
    const agent = createUserAgent({ stopAt: (url) => !url.startsWith('http://127.0.0.1:') });
    const { page } = await signIn(site, 'user@example.test', {
      agent,
      path: `/sign-in?return_to=${encodeURIComponent(form)}`,
    });
    expect(new URL(page.url).origin).toBe(site.url);
    expect(page.visited.every((url) => [site.url, site.sandbox.issuer].includes(new URL(url).origin))).toBe(true);
  });

  test('a valid return_to is where the user arrives', async () => {
    const { page } = await signIn(site, 'user@example.test', {
      path: '/sign-in?return_to=%2Fconnections%2Fplatform%3Fa%3Db',
    });
    expect(page.url).toBe(`${site.url}/connections/platform?a=b`);
  });

  test('raw request targets never lead off the site', async () => {
    for (const target of [
      '//evil.example/',
      '/\\evil.example',
      '///evil.example/%2e%2e',
      '//evil.example/connections',
      'http://evil.example/',
      'http://evil.example/connections',
      '/%2f/evil.example',
      '/connections//evil.example',
    ]) {
      for (const host of [new URL(site.url).host, 'localhost:1', 'evil.example']) {
        const { headers } = await sendRequest(site.url, { target, headers: { ...ACCEPT_HTML, host } });
        if (headers.location) expect(new URL(headers.location, site.url).origin, `${target} ${host}`).toBe(site.url);
      }
    }
  });

  test('R72 an unknown app or a wrong callback gets an error page, never a redirect', async () => {
    for (const path of [
      '/sign-in?app=unknown',
      '/oauth/callback/unknown?code=x&state=y',
      '/oauth/callback/platform?code=x&state=y',
      '/oauth/callback/platform?error=access_denied&state=y&error_uri=https://evil.example/',
      '/oauth/callback/platform',
    ]) {
      const response = await sendRequest(site.url + path, { headers: ACCEPT_HTML });
      expect(response.status, path).toBeGreaterThanOrEqual(400);
      expect(response.status, path).toBeLessThan(500);
      expect(response.headers.location, path).toBeUndefined();
      expect(response.body, path).not.toContain('evil.example');
    }
  });
});
