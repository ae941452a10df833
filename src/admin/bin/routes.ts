/** BIN data in the administration: the data set in use, its coverage, the quota of calls, the lookup service and the cache. */
import { BUILT_IN_ATTRIBUTION, BUILT_IN_LACKS, IMPORT_COMMAND } from '../../bin/built-in-dataset.ts';
import { COUNTRY_ATTRIBUTION } from '../../bin/country.ts';
import { type BinOverview, binOverviewSchema, overviewOf, type Share } from '../../bin/overview.ts';
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

export function adminBinRoutes({ bins, pages }: AdminParts) {
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
        response: binOverviewSchema,
      },
      () => overviewOf(bins),
    ),
  };
}

/** The longest bars, and all others as one. `length`: percent of the longest. `percent`: the share of all rows, as text. */
export function barsOf(shares: readonly Share[], rows: number) {
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
