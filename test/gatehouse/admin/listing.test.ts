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

/** The rows of the table. */
const ROWS = source('gatehouse/admin/listing.ts')
  .split('\n')
  .filter((line) => line.startsWith(' * | `'))
  .map((line) => {
    const [, list = '', _order, byIndex = '', scanned = '', indexes = ''] = line.split('|');
    return { list: wordsIn(list)[0] ?? '', filters: wordsIn(byIndex + scanned), indexes: wordsIn(indexes) };
  });

/** The lists of `createResource`. */
const RESOURCES = readdirSync(join(import.meta.dirname, '../../../src/gatehouse/admin'), { recursive: true })
  .map(String)
  .filter((path) => path.endsWith('/routes.ts') && source(`gatehouse/admin/${path}`).includes('createResource('))
  .map((path) => dirname(path));

/** The filters of those lists. `q` searches the items. */
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

/** Each list with its filters. */
async function readLists(): Promise<(readonly [list: string, filters: string[]])[]> {
  const { paths } = JSON.parse((await sendRequest(`${site.url}/openapi.json`)).body) as {
    paths: Record<string, { get?: Operation }>;
  };
  return Object.entries(paths).flatMap(([path, { get }]) => {
    const parameters = (get?.parameters ?? []).filter((parameter) => parameter.in === 'query');
    const names = parameters.map(({ name }) => name);
    const list = /^\/admin\/api\/([a-z-]+)$/.exec(path)?.[1];
    if (list === undefined || !names.includes('after')) return [];
    // `format` selects the format of a list, not its items.
    const filters = names.filter((name) => !['after', 'limit', 'format'].includes(name));
    return [[list, filters.toSorted()] as const];
  });
}

test('the lists of createResource have their filters', async () => {
  const offered = (await readLists()).filter(([list]) => RESOURCES.includes(list));
  expect(Object.fromEntries(offered)).toEqual(RESOURCE_FILTERS);
});

test('the table has every other list and parameter', async () => {
  const offered = (await readLists()).filter(([list]) => !RESOURCES.includes(list));

  const documented = new Map<string, Set<string>>();
  for (const { list, filters } of ROWS) {
    const filtersOfList = documented.get(list) ?? new Set();
    for (const filter of filters) if (filter !== 'users') filtersOfList.add(filter);
    documented.set(list, filtersOfList);
  }
  const sorted = [...documented].map(([list, filters]) => [list, [...filters].toSorted()]);
  expect(Object.fromEntries(sorted)).toEqual(Object.fromEntries(offered));
});

test('every index in the table exists, and so does the index of each resource', () => {
  const stored = new Set(storedNames());
  const named = [...ROWS.flatMap(({ indexes }) => indexes), ...RESOURCES];
  expect(named.filter((name) => !stored.has(name))).toEqual([]);
});

/**
 * The names of all records and indexes in the table of `storage/keys.ts`. A name ends where the tag or an id begins.
 */
function storedNames(): string[] {
  return [...source('shared/storage/keys.ts').matchAll(/^ \* \| (?:index )?(`[^|]+)\|/gm)].flatMap(([, cell = '']) =>
    [...cell.matchAll(/`([a-z-]+)/g)].map(([, word = '']) => word),
  );
}
