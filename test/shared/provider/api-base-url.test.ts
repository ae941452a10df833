/** R79 for the API base URL in a token response: which hosts it may name, and what no writing of a URL gets past. */
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

/** The base URL, or what is said of the refusal. */
function read(stated: unknown, rule = RULE) {
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
  expect(read(stated)).toBe(used);
  if (used !== undefined) expect(allowedApiBaseUrl(RULE, used)).toBe(used);
});

test.each<[string, unknown, string | undefined]>([
  ['another host', 'https://evil.example', 'evil.example'],
  ['the end of a label', 'https://evilmy.example.com', 'evilmy.example.com'],
  ['the name of which hosts must be below', 'https://my.example.com', 'my.example.com'],
  ['a name below one that is exact', 'https://x.api.example.com', 'x.api.example.com'],
  ['the name in front of another', 'https://acme.my.example.com.evil.example', 'acme.my.example.com.evil.example'],
  ['a dot at the end', 'https://acme.my.example.com.', undefined],
  ['an empty label', 'https://a..my.example.com', undefined],
  ['no label', 'https://.my.example.com', undefined],
  ['an underscore', 'https://a_b.my.example.com', undefined],
  ['another port', 'https://acme.my.example.com:8443', 'acme.my.example.com:8443'],
  ['no port where one is declared', 'https://a.example.org', 'a.example.org'],
  ['plain http', 'http://acme.my.example.com', 'acme.my.example.com'],
  ['plain http at the port of https', 'http://acme.my.example.com:443', 'acme.my.example.com:443'],
  ['plain http on this machine without its port', 'http://localhost', 'localhost'],
  ['an address', 'https://127.0.0.1', undefined],
  ['an address in one number', 'https://2130706433', undefined],
  ['an address in hexadecimals', 'https://0x7f.1', undefined],
  ['an address of IPv6', 'https://[::1]', undefined],
  ['a user name', 'https://acme.my.example.com@evil.example', undefined],
  ['a user name of its own', 'https://u:p@acme.my.example.com', undefined],
  ['a backslash', 'https://evil.example\\.my.example.com', undefined],
  ['a fragment', 'https://evil.example#.my.example.com', undefined],
  ['a query', 'https://acme.my.example.com?next=https://evil.example', undefined],
  ['a line break', 'https://evil.example\n.my.example.com', undefined],
  ['a space in front', ' https://acme.my.example.com', undefined],
  ['full-width dots of a suffix', 'https://evil.example．my．example．com．', undefined],
  ['an escaped slash', 'https://evil.example%2f.my.example.com', undefined],
  ['another scheme', 'ftp://acme.my.example.com', undefined],
  ['no scheme', 'acme.my.example.com', undefined],
  ['nothing', '', undefined],
  ['a number', 7, undefined],
  ['a list', ['https://acme.my.example.com'], undefined],
  ['more than a URL may be long', `https://acme.my.example.com/${'a'.repeat(2000)}`, undefined],
])('%s is refused, and no more than its host is repeated', (_words, stated, host) => {
  expect(read(stated)).toEqual({ refused: host });
});

test('an app without the rule reads no such member, and uses none that was kept', () => {
  expect(readApiBaseUrl({}, { [MEMBER]: 'https://acme.my.example.com' })).toBeUndefined();
  expect(allowedApiBaseUrl({}, 'https://acme.my.example.com')).toBeUndefined();
});

test('a kept URL whose host was taken off the list is not used', () => {
  expect(allowedApiBaseUrl(ruleOf('.my.example.com'), 'https://api.example.com')).toBeUndefined();
  expect(allowedApiBaseUrl(RULE, undefined)).toBeUndefined();
});

describe('whatever is written', () => {
  const label = fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?$/);
  const near = fc.oneof(
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
  const written = fc
    .tuple(fc.constantFrom('https://', 'http://', 'HTTPS:/', '//', ''), fc.array(near, { maxLength: 5 }))
    .map(([scheme, parts]) => scheme + parts.join(''));

  test('what is used has a declared host and port, https, and nothing but a path beside', () => {
    fc.assert(
      fc.property(written, (stated) => {
        const used = read(stated);
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

  test('every host below a suffix is used, and none that only ends in its letters', () => {
    fc.assert(
      fc.property(fc.array(label, { minLength: 1, maxLength: 4 }), (labels) => {
        const name = labels.join('.');
        expect(read(`https://${name}.my.example.com`)).toBe(`https://${name}.my.example.com`);
        expect(read(`https://${name}my.example.com`)).toEqual({ refused: `${name}my.example.com` });
      }),
    );
  });
});

test.each(
  [
    ...['com', '.com', '.', '', '*.example.com', 'Example.com', '.example.com.', 'exa mple.com', '.example..com'],
    ...[
      '127.0.0.1',
      '.0.0.1',
      '0x7f.1',
      '[::1]',
      'example.com:0',
      'example.com:x',
      'https://example.com',
      'a.example.com/b',
    ],
  ].filter((host) => host !== 'com'),
)('"%s" is no host that an app can declare', (host) => {
  expect(connectedAppSchema.shape.apiBaseUrlFrom.safeParse({ member: MEMBER, hosts: [host] }).success).toBe(false);
});
