/** R79: the hosts that the API base URL in a token response may name, and URLs written to get around the rule. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { allowedApiBaseUrl, readApiBaseUrl } from '../../../src/shared/provider/api-base-url.ts';
import { type ConnectedApp, connectedAppSchema } from '../../../src/shared/provider/connected-app.ts';
import { ProviderError } from '../../../src/shared/provider/provider-error.ts';

const MEMBER = 'instance_url';
const ruleOf = (...hosts: string[]): Pick<ConnectedApp, 'apiBaseUrlFrom'> => ({
  apiBaseUrlFrom: connectedAppSchema.shape.apiBaseUrlFrom.parse({ member: MEMBER, hosts }),
});
const RULE = ruleOf('.my.example.com', 'api.example.com', '.example.org:8443', 'localhost:3002');

/** The base URL, or the host that the refusal names. */
function baseUrlOrRefusal(stated: unknown, rule = RULE) {
  try {
    return readApiBaseUrl(rule, { access_token: 'a', [MEMBER]: stated });
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    expect([error.failure, error.reason, error.facts.member]).toEqual(['invalid', 'api_base_url_refused', MEMBER]);
    return { refused: error.facts.host };
  }
}

test.each<[unknown, string | undefined]>([
  ['https://acme.my.example.com', 'https://acme.my.example.com'],
  ['https://acme--uat.sandbox.my.example.com/', 'https://acme--uat.sandbox.my.example.com'],
  ['https://api.example.com/v2/', 'https://api.example.com/v2'],
  ['https://api.example.com/v2/../v3//', 'https://api.example.com/v3'],
  ['HTTPS://ACME.My.Example.COM', 'https://acme.my.example.com'],
  ['https://acme.my.example.com:443', 'https://acme.my.example.com'],
  ['https://a.example.org:8443', 'https://a.example.org:8443'],
  ['http://localhost:3002/api', 'http://localhost:3002/api'],
  [undefined, undefined],
  [null, undefined],
])('%s is used as %s', (stated, used) => {
  expect(baseUrlOrRefusal(stated)).toBe(used);
  if (used !== undefined) expect(allowedApiBaseUrl(RULE, used)).toBe(used);
});

test.each<[string, unknown, string | undefined]>([
  ['another host', 'https://evil.example', 'evil.example'],
  ['the end of a label', 'https://evilmy.example.com', 'evilmy.example.com'],
  ['the suffix itself', 'https://my.example.com', 'my.example.com'],
  ['a name below an exact host', 'https://x.api.example.com', 'x.api.example.com'],
  [
    'an allowed name before another domain',
    'https://acme.my.example.com.evil.example',
    'acme.my.example.com.evil.example',
  ],
  ['a trailing dot', 'https://acme.my.example.com.', undefined],
  ['an empty label', 'https://a..my.example.com', undefined],
  ['no label', 'https://.my.example.com', undefined],
  ['an underscore', 'https://a_b.my.example.com', undefined],
  ['another port', 'https://acme.my.example.com:8443', 'acme.my.example.com:8443'],
  ['no port where one is declared', 'https://a.example.org', 'a.example.org'],
  ['plain http', 'http://acme.my.example.com', 'acme.my.example.com'],
  ['plain http at the port of https', 'http://acme.my.example.com:443', 'acme.my.example.com:443'],
  ['plain http on loopback without the declared port', 'http://localhost', 'localhost'],
  ['an address', 'https://127.0.0.1', undefined],
  ['an address as a single number', 'https://2130706433', undefined],
  ['an address in hexadecimal', 'https://0x7f.1', undefined],
  ['an IPv6 address', 'https://[::1]', undefined],
  ['a user name', 'https://acme.my.example.com@evil.example', undefined],
  ['a user name and a password', 'https://u:p@acme.my.example.com', undefined],
  ['a backslash', 'https://evil.example\\.my.example.com', undefined],
  ['a fragment', 'https://evil.example#.my.example.com', undefined],
  ['a query', 'https://acme.my.example.com?next=https://evil.example', undefined],
  ['a line break', 'https://evil.example\n.my.example.com', undefined],
  ['a leading space', ' https://acme.my.example.com', undefined],
  ['full-width dots of a suffix', 'https://evil.example．my．example．com．', undefined],
  ['an escaped slash', 'https://evil.example%2f.my.example.com', undefined],
  ['another scheme', 'ftp://acme.my.example.com', undefined],
  ['no scheme', 'acme.my.example.com', undefined],
  ['an empty text', '', undefined],
  ['a number', 7, undefined],
  ['a list', ['https://acme.my.example.com'], undefined],
  ['a URL that is too long', `https://acme.my.example.com/${'a'.repeat(2000)}`, undefined],
])('refuses %s and repeats at most the host', (_words, stated, host) => {
  expect(baseUrlOrRefusal(stated)).toEqual({ refused: host });
});

test('an app without the rule ignores the member and a stored URL', () => {
  expect(readApiBaseUrl({}, { [MEMBER]: 'https://acme.my.example.com' })).toBeUndefined();
  expect(allowedApiBaseUrl({}, 'https://acme.my.example.com')).toBeUndefined();
});

test('a stored URL is not used once its host is removed from the list', () => {
  expect(allowedApiBaseUrl(ruleOf('.my.example.com'), 'https://api.example.com')).toBeUndefined();
  expect(allowedApiBaseUrl(RULE, undefined)).toBeUndefined();
});

describe('any text', () => {
  const label = fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?$/);
  const piece = fc.oneof(
    fc.string({ maxLength: 12 }),
    label,
    fc.constantFrom(
      '.my.example.com',
      'api.example.com',
      '.',
      '@',
      ':443',
      ':8443',
      '\\',
      '/',
      '%2e',
      '#',
      '\t',
      '[::1]',
    ),
  );
  const anyUrl = fc
    .tuple(fc.constantFrom('https://', 'http://', 'HTTPS:/', '//', ''), fc.array(piece, { maxLength: 5 }))
    .map(([scheme, parts]) => scheme + parts.join(''));

  test('is used only with a declared host and port, https, and nothing else except a path', () => {
    fc.assert(
      fc.property(anyUrl, (stated) => {
        const used = baseUrlOrRefusal(stated);
        if (typeof used !== 'string') return;
        const { protocol, host, username, password, search, hash, href } = new URL(used);
        expect(host).toMatch(
          /^(([a-z0-9-]+\.)+my\.example\.com|api\.example\.com|([a-z0-9-]+\.)+example\.org:8443|localhost:3002)$/,
        );
        expect([username, password, search, hash]).toEqual(['', '', '', '']);
        expect(protocol === 'https:' || host === 'localhost:3002').toBe(true);
        expect(href.replace(/\/$/, '')).toBe(used);
      }),
      { numRuns: 2_000 },
    );
  });

  test('is used with any host below a suffix, but not with a host that only ends in its letters', () => {
    fc.assert(
      fc.property(fc.array(label, { minLength: 1, maxLength: 4 }), (labels) => {
        const name = labels.join('.');
        expect(baseUrlOrRefusal(`https://${name}.my.example.com`)).toBe(`https://${name}.my.example.com`);
        expect(baseUrlOrRefusal(`https://${name}my.example.com`)).toEqual({ refused: `${name}my.example.com` });
      }),
    );
  });
});

test.each([
  '.com',
  '.',
  '',
  '*.example.com',
  'Example.com',
  '.example.com.',
  'exa mple.com',
  '.example..com',
  '127.0.0.1',
  '.0.0.1',
  '0x7f.1',
  '[::1]',
  'example.com:0',
  'example.com:x',
  'https://example.com',
  'a.example.com/b',
])('rejects the declared host "%s"', (host) => {
  expect(connectedAppSchema.shape.apiBaseUrlFrom.safeParse({ member: MEMBER, hosts: [host] }).success).toBe(false);
});
