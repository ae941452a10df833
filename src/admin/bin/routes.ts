/** BIN data in the administration: the data set in use, its coverage, the quota of calls, the lookup service and the cache. */
import { z } from 'zod';
import { BUILT_IN_ATTRIBUTION, BUILT_IN_LACKS, IMPORT_COMMAND } from '../../bin/built-in-dataset.ts';
import { COUNTRY_ATTRIBUTION } from '../../bin/country.ts';
import { type BinOverview, overviewOf, type Share } from '../../bin/overview.ts';
import { operation } from '../../http/operation.ts';
import type { AdminParts } from '../admin.ts';
import type { AdminPageData } from '../page.ts';

declare module '../../pages/page-data.ts' {
  interface PageData {
    'admin/bin': AdminPageData & {
      bins: BinOverview;
      networks: ReturnType<typeof barsOf>;
      countries: ReturnType<typeof barsOf>;
      attribution: readonly string[];
      importCommand: string;
      builtInLacks: string;
    };
  }
}

const MAX_BARS = 12;

const share = z.object({
  key: z.string().nullable().describe('the network, or the alpha-2 code; null: none is named'),
  name: z.string(),
  rows: z.int(),
});
const about = { source: z.string(), asOf: z.string(), licence: z.string(), rows: z.int() };
const instant = z.iso.datetime();

const overviewJson = z.object({
  dataset: z.object({
    origin: z
      .enum(['file', 'import', 'built_in'])
      .describe('file: that of BIN_DATASET_FILE, which wins over an import'),
    ...about,
    badRows: z.int().nullable().describe('rows left out; null: built in'),
    faults: z.array(z.object({ line: z.int(), reason: z.string() })).describe('the first hundred of those rows'),
    importedAt: instant.nullable(),
  }),
  previous: z
    .object({ ...about, importedAt: instant.nullable() })
    .nullable()
    .describe('what "bin rollback" would bring back'),
  networks: z.array(share),
  countries: z.array(share),
  quota: z
    .object({
      used: z.int(),
      limit: z.int(),
      userReserve: z.int().describe('calls that only users may cause'),
      userDailyQuota: z.int().describe('calls that one user may cause in a day (UTC)'),
      resetsAt: instant,
    })
    .nullable()
    .describe('calls to the BIN lookup service this month (UTC); null where none is set'),
  service: z.object({
    status: z.enum(['not_set', 'never_asked', 'answering', 'failing']),
    lastAnswerAt: instant.optional(),
    lastFailureAt: instant.optional(),
    lastFailure: z.string().optional(),
  }),
  lookups: z.object({ month: z.string(), outcomes: z.record(z.string(), z.int()) }),
  cache: z.object({ hits: z.int(), misses: z.int(), hitRate: z.number().nullable() }),
});

export function binRoutes({ bins, pages }: AdminParts) {
  const page = pages.page('admin/bin', async () => {
    const current = await overviewOf(bins);
    return {
      title: 'BIN data',
      bins: current,
      networks: barsOf(current.networks, current.dataset.rows),
      countries: barsOf(current.countries, current.dataset.rows),
      attribution: [BUILT_IN_ATTRIBUTION, COUNTRY_ATTRIBUTION],
      importCommand: IMPORT_COMMAND,
      builtInLacks: BUILT_IN_LACKS,
    };
  });

  return {
    page: page.handler,
    overview: operation(
      {
        summary: 'BIN data: the data set, its coverage, the budget of calls, the service, the cache',
        answer: overviewJson,
      },
      () => overviewOf(bins),
    ),
  };
}

/** The longest bars, and all others as one. `length`: percent of the longest. `percent`: the share of all rows, as text. */
function barsOf(shares: readonly Share[], rows: number) {
  const most = shares.length > MAX_BARS ? MAX_BARS - 1 : shares.length;
  const others = shares.slice(most);
  const sum = others.reduce((total, one) => total + one.rows, 0);
  const rest = others.length === 0 ? [] : [{ key: null, name: `${others.length} others`, rows: sum }];
  const drawn = [...shares.slice(0, most), ...rest];
  const longest = Math.max(...drawn.map((one) => one.rows), 1);
  return drawn.map((one) => ({
    ...one,
    length: Math.max(1, Math.round((one.rows / longest) * 100)),
    percent: percentOf(one.rows, rows),
  }));
}

function percentOf(part: number, whole: number): string {
  const percent = whole === 0 ? 0 : (part / whole) * 100;
  return percent > 0 && percent < 0.1 ? '< 0.1 %' : `${percent.toFixed(1)} %`;
}
