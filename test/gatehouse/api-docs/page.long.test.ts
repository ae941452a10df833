/** The API reference: a curl line for each call, fields with their types, a search, and deep links. */
import { execFile, spawnSync } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sampleOf } from '../../../src/gatehouse/api-docs/curl.ts';
import { fieldsOf, type JsonSchema } from '../../../src/gatehouse/api-docs/schema-fields.ts';
import { useBrowser } from '../../support/browser.ts';
import { startSite, type TestSite } from '../../support/gatehouse.ts';
import { skipIfMissing } from '../../support/missing.ts';
import { sendRequest } from '../../support/send-request.ts';
import { openStorageOf, type StorageAccess } from '../grants/storage-access.ts';
import { type Administrator, createAdministrator } from '../relay/service.ts';

let site: TestSite;
let storage: StorageAccess;
let admin: Administrator;
let body: string;
beforeAll(async () => {
  site = await startSite();
  storage = await openStorageOf(site);
  admin = await createAdministrator(site, storage);
  ({ body } = await sendRequest(`${site.url}/docs`));
});
afterAll(async () => {
  await storage.close();
  await site.close();
});

const CHARACTERS: Readonly<Record<string, string>> = {
  '&quot;': '"',
  '&#39;': "'",
  '&lt;': '<',
  '&gt;': '>',
  '&amp;': '&',
};
const unescaped = (html: string) => html.replace(/&(?:quot|#39|lt|gt|amp);/g, (entity) => CHARACTERS[entity] ?? '');
/** The HTML of the call with this operation id. */
const callOf = (id: string) => {
  const start = body.indexOf(`<div id="${id}"`);
  expect(start, id).toBeGreaterThan(0);
  return body.slice(start, body.indexOf('</details>', start));
};
const curlOf = (id: string) => unescaped(/data-copy-source>([^<]+)</.exec(callOf(id))?.[1] ?? '');

describe('the curl lines', () => {
  test('contain the URL of this Gatehouse, and read tokens and ids from the environment', () => {
    expect(curlOf('getAdminApiUsersId')).toBe(
      `curl "${site.url}/admin/api/users/$ID" -H "Authorization: Bearer $ADMIN_TOKEN"`,
    );
    expect(curlOf('postAdminApiRelayTokensIdRotate')).toBe(
      `curl -X POST "${site.url}/admin/api/relay-tokens/$ID/rotate" -H "Authorization: Bearer $ADMIN_TOKEN" ` +
        `-H "Content-Type: application/json" -d '{}'`,
    );
    expect(curlOf('getRelayThreadsCurrent')).toContain('"Authorization: Bearer $RELAY_TOKEN"');
    expect(curlOf('postSessionsIdEnd')).toContain('-H "X-CSRF-Token: $CSRF_TOKEN"');
  });

  test('work in a shell unchanged, if the variables are set', async (context) => {
    skipIfMissing(context, spawnSync('curl', ['--version']).error && 'curl');
    const expiresAt = new Date(Date.now() + 86_400_000).toISOString();
    const { json } = await admin.call('POST', '/admin-tokens', { name: 'curl', scope: 'write', expiresAt });
    const { token } = json as { token: string };
    const statusOf = async (id: string, env: Record<string, string> = {}) => {
      const line = `${curlOf(id)} -s -o /dev/null -w '%{http_code}'`;
      const { stdout } = await promisify(execFile)('sh', ['-c', line], {
        env: { PATH: process.env.PATH ?? '', ADMIN_TOKEN: token, ...env },
      });
      return stdout;
    };
    expect(await statusOf('getAdminApiUsers')).toBe('200');
    const relayToken = await admin.createRelayToken();
    expect(await statusOf('getAdminApiRelayTokensId', { ID: relayToken.id })).toBe('200');
    expect(await statusOf('postAdminApiRelayTokensIdRotate', { ID: relayToken.id })).toBe('200');
    expect(await statusOf('postAdminApiCallbackUrls')).toBe('200');
    expect(await statusOf('getSession')).toBe('200');
  });

  test('exist for every call, and contain no token', () => {
    const lines = [...body.matchAll(/data-copy-source>([^<]+)</g)].map(([, line = '']) => unescaped(line));
    expect(lines.length).toBe(body.match(/class="docs-call"/g)?.length);
    for (const line of lines) expect(line).toMatch(/^curl (-X [A-Z]+ )?"http/);
    expect(lines.filter((line) => /gth[ar]_/.test(line))).toEqual([]);
  });
});

describe('the fields', () => {
  test('of a body have their path, a mark if required, and the allowed values', () => {
    const create = callOf('postAdminApiRelayTokens');
    expect(create).toMatch(/<code>name<\/code> <b>required/);
    for (const scope of ['threads:read', 'bin:read']) expect(create).toContain(`<code>&quot;${scope}&quot;</code>`);
    const users = callOf('getAdminApiUsersIdTimeline');
    expect(users).toMatch(/<span class="quiet">items\[\]\.actor\.<\/span>kind/);
    expect(users).toMatch(/limit<\/code>.*?in the query, default 50, 1 to 200/s);
  });

  test.each<[string, JsonSchema, [string, string, boolean][]]>([
    [
      'objects in lists, maps and variants',
      {
        type: 'object',
        required: ['list'],
        properties: {
          list: { type: 'array', items: { type: 'object', properties: { id: { type: 'string' } }, required: ['id'] } },
          map: { type: 'object', additionalProperties: { type: 'object', properties: { n: { type: 'integer' } } } },
          either: {
            anyOf: [{ type: 'object', properties: { a: { type: 'string', format: 'uri' } } }, { type: 'null' }],
          },
        },
      },
      [
        ['list', 'array of object', true],
        ['list[].id', 'string', true],
        ['map', 'map of object', false],
        ['map.*.n', 'integer', false],
        ['either', 'object or null', false],
        ['either.a', 'string (uri)', false],
      ],
    ],
    ['a list', { type: 'array', items: { type: 'object', properties: { x: {} } } }, [['x', 'anything', false]]],
    ['nothing', {}, []],
  ])('%s', (_name, schema, expected) => {
    expect(fieldsOf(schema).map(({ parent, name, type, required }) => [parent + name, type, required])).toEqual(
      expected,
    );
  });

  test('a sample has only the required fields', () => {
    const schema: JsonSchema = {
      type: 'object',
      required: ['name', 'kind', 'list', 'at', 'count', 'inner'],
      properties: {
        ...{ name: { type: 'string' }, kind: { enum: ['a', 'b'] }, more: { type: 'string' } },
        list: { type: 'array', minItems: 1, items: { const: 'x' } },
        ...{ at: { type: 'string', format: 'date-time' }, count: { type: 'integer', minimum: 5 } },
        inner: {
          anyOf: [{ type: 'null' }, { type: 'object', required: ['y'], properties: { y: { type: 'boolean' } } }],
        },
      },
    };
    expect(sampleOf(schema)).toEqual({
      ...{ name: '…', kind: 'a', list: ['x'], at: '2027-01-31T00:00:00Z', count: 5 },
      inner: { y: false },
    });
  });
});

describe('in a browser', () => {
  const openPage = useBrowser();

  test('the search filters the calls, and a link opens its call', async () => {
    const page = await openPage();
    await page.goto(`${site.url}/docs`);
    const countVisible = () => page.locator('.docs-call:visible').count();
    const total = await countVisible();
    await page.getByRole('searchbox').fill('rotate relay');
    expect(await countVisible()).toBe(1);
    expect(await page.locator('[data-docs-count]').textContent()).toBe(`1 of ${total} calls`);

    // Only fields have this word, so the search covers fields.
    await page.getByRole('searchbox').fill('overlapSeconds');
    expect(await countVisible()).toBeGreaterThan(0);
    expect(await countVisible()).toBeLessThan(10);
    await page.goto(`${site.url}/docs#getAdminApiUsers`);
    await page.reload();
    await page.locator('#getAdminApiUsers').waitFor({ state: 'visible' });
  });

  test('without scripts there is no search field, and a link still opens its call', async () => {
    const page = await openPage({ javaScriptEnabled: false });
    await page.goto(`${site.url}/docs#getAdminApiUsers`);
    expect(await page.getByRole('searchbox').isVisible()).toBe(false);
    expect(await page.locator('#getAdminApiUsers').isVisible()).toBe(true);
  });
});
