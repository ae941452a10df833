/** R144: links of a platform lead to declared routes, or are not passed on. */
import { expect, test } from 'vitest';
import type { ThreadApp } from '../../../src/gatehouse/connected-apps/current-apps.ts';
import { rewrittenLinks } from '../../../src/gatehouse/platform/links.ts';
import { appRoutesSchema } from '../../../src/shared/provider/app-routes.ts';

const API = 'https://api.example.com/v2';
const app = {
  apiBaseUrl: API,
  threadPath: '/me',
  routes: appRoutesSchema.parse([
    { name: 'items', method: 'GET', path: '/items', query: ['cursor', 'limit'] },
    { name: 'item', method: 'GET', path: '/items/{id}' },
    { name: 'add', method: 'POST', path: '/added' },
  ]),
} as unknown as ThreadApp;
const rewritten = (link: string) => rewrittenLinks(app, link, API, '/api/crm');

test.each([
  [`<${API}/items?cursor=a>; rel="next"`, '</api/crm/items?cursor=a>; rel="next"'],
  ['</v2/items?cursor=a%20b&limit=2>; rel=next', '</api/crm/items?cursor=a%20b&limit=2>; rel=next'],
  ['<HTTPS://API.example.com:443/v2/items/17>; rel="item"', '</api/crm/items/17>; rel="item"'],
  [
    '</v2/items>; rel="first prev"; title="a, <b>; \\"c\\"" ,\t</v2/me>;rel=up',
    '</api/crm/items>; rel="first prev"; title="a, <b>; \\"c\\"", </api/crm/me>;rel=up',
  ],
  ['</v2/items>; rel="next",', '</api/crm/items>; rel="next"'],
])('R144 %s becomes %s', (link, expected) => {
  expect(rewritten(link)).toBe(expected);
});

test.each([
  ['another host', '<https://evil.example/v2/items>; rel="next"'],
  ['a host without a scheme', '<//evil.example/v2/items>; rel="next"'],
  ['a host behind a backslash', '</\\evil.example/v2/items>; rel="next"'],
  ['another scheme', '<http://api.example.com/v2/items>; rel="next"'],
  ['a script', '<javascript:alert(1)>; rel="next"'],
  ['a user name', '<https://user@api.example.com/v2/items>; rel="next"'],
  ['another port', '<https://api.example.com:8443/v2/items>; rel="next"'],
  ['a path beside the base', '</items>; rel="next"'],
  ['a path that leaves the base', '</v2/../items>; rel="next"'],
  ['a path that begins like the base', '</v20/items>; rel="next"'],
  ['a path relative to the request', '<items?cursor=a>; rel="next"'],
  ['only a query', '<?cursor=a>; rel="next"'],
  ['a fragment', '</v2/items#a>; rel="next"'],
  ['an undeclared path', '</v2/admin>; rel="next"'],
  ['an undeclared parameter', '</v2/items?page=2>; rel="next"'],
  ['a parameter twice', '</v2/items?cursor=a&cursor=b>; rel="next"'],
  ['a route of another method', '</v2/added>; rel="next"'],
  ['an escaped slash', '</v2/items/a%2fb>; rel="next"'],
  ['one other target', '</v2/items>; rel="next", </v2/admin>; rel="last"'],
  ['an anchor', '</v2/items>; rel="next"; anchor="https://evil.example/"'],
  ['an anchor in capitals', '</v2/items>; rel="next"; ANCHOR = "/x"'],
  ['no brackets', '/v2/items; rel="next"'],
  ['a line break', '</v2/items>; rel="next"\r\nSet-Cookie: a=b'],
  ['a bracket that is not closed', '</v2/items; rel="next"'],
  ['a quote that is not closed', '</v2/items>; rel="next'],
  ['two links without a comma', '</v2/items>; rel="next" </v2/me>; rel="up"'],
  ['too many links', Array(51).fill('</v2/items>; rel="next"').join(', ')],
])('R144 a header with %s is not passed on', (_words, link) => {
  expect(rewritten(link)).toBeUndefined();
});

test('R96 a header that cannot be read costs little time', () => {
  const startedAt = performance.now();
  for (const part of ['</v2/items>; ', ';a="\\"', ' \t', '<', 'a=b;', '</v2/items>,'])
    rewritten(`</v2/items>; a="${part.repeat(32_768 / part.length)}`);
  expect(performance.now() - startedAt).toBeLessThan(1_000);
});
