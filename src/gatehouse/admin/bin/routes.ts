/**
 * BIN data in the administration: the data set in use, its coverage, the call quota, the lookup service and the cache.
 */
import {
  BUILT_IN_ABOUT,
  BUILT_IN_ATTRIBUTION,
  IMPORT_AS_OF,
  IMPORT_COMMAND,
  REAL_USE,
} from '../../../shared/bin/built-in-dataset.ts';
import { COUNTRY_ATTRIBUTION } from '../../../shared/bin/country.ts';
import { isOutdated } from '../../../shared/bin/lookup-result.ts';
import { operation } from '../../../shared/http/operation.ts';
import { type BinOverview, binOverviewSchema, overviewOf, type Share } from '../../bin/overview.ts';
import type { AdminPageData } from '../page.ts';
import type { AdminParts } from '../parts.ts';

declare module '../../../shared/pages/page-data.ts' {
  interface PageData {
    'admin/bin/page': AdminPageData & {
      bins: BinOverview;
      networks: readonly Bar[];
      countries: readonly Bar[];
      attribution: readonly string[];
      /** Sentences about the data set, and what to do about it. */
      advice: readonly string[];
      /** Undefined if it imports no newer data than the data set in use. */
      importCommand: string | undefined;
    };
  }
}

/** `length` is in percent of the longest bar. `key` is null for the sum of the others. */
interface Bar extends Omit<Share, 'key'> {
  key: Share['key'] | null;
  length: number;
  percent: string;
}

const MAX_BARS = 12;
const OLD_DATA_ADVICE = 'This data is more than two years old, and lookups say so. Get newer data from its source.';

export function adminBinRoutes({ bins, pages, clock }: AdminParts) {
  const page = pages.page('admin/bin/page', async () => {
    const current = await overviewOf(bins);
    return {
      title: 'BIN data',
      bins: current,
      networks: barsOf(current.networks, current.dataset.rows),
      countries: barsOf(current.countries, current.dataset.rows),
      attribution: [BUILT_IN_ATTRIBUTION, COUNTRY_ATTRIBUTION],
      ...adviceFor(current.dataset, clock()),
    };
  });

  return {
    page: page.handler,
    overview: operation(
      {
        summary: 'Read the BIN data set in use, its coverage, the call quota, the lookup service and the cache',
        response: binOverviewSchema,
      },
      () => overviewOf(bins),
    ),
  };
}

/** Returns what to do about the data set in use. The command is of no use for a set that is newer than what it imports. */
export function adviceFor(
  { origin, asOf }: Pick<BinOverview['dataset'], 'origin' | 'asOf'>,
  now: number,
): { advice: readonly string[]; importCommand: string | undefined } {
  const isOld = isOutdated(asOf, now);
  const canImportNewer = isOld && origin !== 'file' && asOf < IMPORT_AS_OF;
  return {
    advice: origin === 'built_in' ? [BUILT_IN_ABOUT, REAL_USE] : isOld ? [OLD_DATA_ADVICE] : [],
    importCommand: canImportNewer ? IMPORT_COMMAND : undefined,
  };
}

/** Returns the longest bars, and one for the sum of the others. */
export function barsOf(shares: readonly Share[], rows: number): Bar[] {
  const separateCount = shares.length > MAX_BARS ? MAX_BARS - 1 : shares.length;
  const others = shares.slice(separateCount);
  const sum = others.reduce((total, share) => total + share.rows, 0);
  const rest = others.length === 0 ? [] : [{ key: null, name: `${others.length} others`, rows: sum }];
  const shownShares = [...shares.slice(0, separateCount), ...rest];
  const longest = Math.max(...shownShares.map((share) => share.rows), 1);
  return shownShares.map((share) => ({
    ...share,
    length: Math.max(1, Math.round((share.rows / longest) * 100)),
    percent: percentOf(share.rows, rows),
  }));
}

function percentOf(part: number, whole: number): string {
  const percent = whole === 0 ? 0 : (part / whole) * 100;
  return percent > 0 && percent < 0.1 ? '< 0.1 %' : `${percent.toFixed(1)} %`;
}
