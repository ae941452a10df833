/**
 * The table of `src/gatehouse/admin/listing.ts` says what the lists of the administration offer: it names every list,
 * parameter and index, but for the lists of `createResource`, which all have the same order and an index with their
 * name.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startSite, type TestSite } from '../../support/gatehouse.ts';
import { sendRequest } from '../../support/send-request.ts';

const source = (path: string) => readFileSync(join(import.meta.dirname, '../../../src', path), 'utf8');
const wordsIn = (cell: string) => [...cell.matchAll(/`([a-z-]+)`/g)].map(([, word = '']) => word);

const ROWS = source('gatehouse/admin/listing.ts')
  .split('\n')
  .filter((line) => line.startsWith(' * | `'))
  .map((line) => {
    const [, list = '', , narrowed = '', index = ''] = line.split('|');
    return { list: wordsIn(list)[0] ?? '', narrowed: wordsIn(narrowed), index: wordsIn(index) };
  });

/** The lists of `createResource`. */
const RESOURCES = readdirSync(join(import.meta.dirname, '../../../src/gatehouse/admin'), { recursive: true })
  .map(String)
  .filter((path) => path.endsWith('/routes.ts') && source(`gatehouse/admin/${path}`).includes('createResource('))
  .map((path) => dirname(path));

/** Their filters. `q` is a search in the items. */
const RESOURCE_FILTERS: Readonly<Record<string, readonly string[]>> = {
  'admin-tokens': ['q', 'scope', 'state'],
  'connect-links': ['q'],
  'relay-tokens': ['app', 'q', 'scope', 'state'],
  'service-accounts': ['app', 'q'],
  webhooks: ['event', 'q', 'state'],
};

interface Operation {
  parameters?: { in: string; name: string }[];
}

let site: TestSite;
beforeAll(async () => {
  site = await startSite();
});
afterAll(() => site.close());

/** Each list with its parameters, except those of paging. */
async function lists(): Promise<(readonly [string, string[]])[]> {
  const { paths } = JSON.parse((await sendRequest(`${site.url}/openapi.json`)).body) as {
    paths: Record<string, { get?: Operation }>;
  };
  return Object.entries(paths).flatMap(([path, { get }]) => {
    const names = (get?.parameters ?? []).filter((one) => one.in === 'query').map(({ name }) => name);
    const list = /^\/admin\/api\/([a-z-]+)$/.exec(path)?.[1];
    // `format` selects the format of a list, not its items.
    return list && names.includes('after')
      ? [[list, names.filter((name) => !['after', 'limit', 'format'].includes(name)).toSorted()] as const]
      : [];
  });
}

test('the lists of createResource have their filters', async () => {
  const offered = (await lists()).filter(([list]) => RESOURCES.includes(list));
  expect(Object.fromEntries(offered)).toEqual(RESOURCE_FILTERS);
});

test('the table has every other list and parameter', async () => {
  const offered = (await lists()).filter(([list]) => !RESOURCES.includes(list));
  const parametersOf = (list: string) =>
    new Set(
      ROWS.filter((row) => row.list === list).flatMap(({ narrowed }) => narrowed.filter((name) => name !== 'users')),
    );
  const named = [...new Set(ROWS.map(({ list }) => list))].map((list) => [list, [...parametersOf(list)].toSorted()]);
  expect(Object.fromEntries(named)).toEqual(Object.fromEntries(offered));
});

test('every index in the table exists, and so does the index of each resource', () => {
  const kept = new Set(wordsInTable());
  expect([...ROWS.flatMap(({ index }) => index), ...RESOURCES].filter((name) => !kept.has(name))).toEqual([]);
});

/**
 * The names of all records and indexes, by the table in `storage/keys.ts`; a name ends where the tag or an id begins.
 */
function wordsInTable(): string[] {
  return [...source('shared/storage/keys.ts').matchAll(/^ \* \| (?:index )?(`[^|]+)\|/gm)].flatMap(([, cell = '']) =>
    [...cell.matchAll(/`([a-z-]+)/g)].map(([, word = '']) => word),
  );
}
