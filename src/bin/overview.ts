/** Owns what administrators see of BIN data: the data set and its coverage, the budget of calls, the service's health, the cache. */
import { countryByAlpha2 } from './country.ts';
import type { Coverage, DatasetAbout } from './dataset.ts';
import type { RowFault } from './dataset-file.ts';
import type { BinEnrichment } from './enrichment.ts';
import type { LookupOutcome } from './lookup.ts';
import type { QuotaStatus } from './quota.ts';
import type { DatasetVersion } from './stored-dataset.ts';
import type { ServiceHealth } from './tally.ts';

/** `file`: of `BIN_DATASET_FILE`. Instants are ISO 8601, absent facts null. */
export interface DatasetView {
  origin: 'file' | 'import' | 'built_in';
  source: string;
  asOf: string;
  licence: string;
  rows: number;
  /** Rows that were left out; null for the built-in one. */
  badRows: number | null;
  /** The first hundred of them. */
  faults: readonly RowFault[];
  importedAt: string | null;
}

/** One bar: how many rows of all belong to this network or country; null for those of none. */
export interface Share {
  key: string | null;
  name: string;
  rows: number;
}

export interface BinOverview {
  dataset: DatasetView;
  /** What `bin rollback` would bring back. */
  previous: Pick<DatasetView, 'source' | 'asOf' | 'licence' | 'rows' | 'importedAt'> | null;
  networks: Share[];
  countries: Share[];
  quota: QuotaStatus | null;
  service: { status: 'not_set' | 'never_asked' | 'answering' | 'failing' } & ServiceHealth;
  /** Of this UTC month, all processes together. */
  lookups: { month: string; outcomes: Record<LookupOutcome, number> };
  /** `hitRate`: from 0 to 1; null where nothing was asked of it this month. */
  cache: { hits: number; misses: number; hitRate: number | null };
}

/** @throws AppError `storage_unavailable` */
export async function overviewOf(bins: BinEnrichment): Promise<BinOverview> {
  const [versions, quota, tally] = await Promise.all([
    bins.stored.versions(),
    bins.quota?.status() ?? null,
    bins.tally.report(),
  ]);
  const version = bins.dataset.version();
  const dataset = bins.dataset.current();
  const shown = dataset ?? bins.builtIn();
  const report = bins.dataset.report();
  const origin = dataset ? (version ? 'import' : 'file') : 'built_in';
  const { month, outcomes, cache, service } = tally;
  const asked = cache.hits + cache.misses;
  return {
    dataset: {
      origin,
      ...aboutOf(shown),
      badRows: report?.skipped ?? null,
      faults: report?.faults ?? [],
      importedAt: version?.importedAt ?? null,
    },
    // While the file counts a rollback would change nothing.
    previous: versions?.previous && origin !== 'file' ? previousView(versions.previous) : null,
    ...coverageOf(shown.coverage),
    quota,
    service: { status: quota ? statusOf(service) : 'not_set', ...service },
    lookups: { month, outcomes },
    cache: { ...cache, hitRate: asked === 0 ? null : cache.hits / asked },
  };
}

function aboutOf({ source, asOf, licence, size }: DatasetAbout & { size: number }) {
  return { source, asOf, licence, rows: size };
}

function previousView(version: DatasetVersion): BinOverview['previous'] {
  return { ...aboutOf(version), importedAt: version.importedAt };
}

function coverageOf({ schemes, countries }: Coverage): { networks: Share[]; countries: Share[] } {
  return {
    networks: sharesOf(schemes, (scheme) => scheme || 'no network named'),
    countries: sharesOf(countries, (alpha2) => countryByAlpha2(alpha2)?.name ?? alpha2),
  };
}

function sharesOf(counts: Readonly<Record<string, number>>, nameOf: (key: string) => string): Share[] {
  return Object.entries(counts)
    .map(([key, rows]) => ({ key: key || null, name: nameOf(key), rows }))
    .sort((one, other) => other.rows - one.rows || one.name.localeCompare(other.name));
}

function statusOf({ lastAnswerAt, lastFailureAt }: ServiceHealth): 'never_asked' | 'answering' | 'failing' {
  if (lastAnswerAt === undefined && lastFailureAt === undefined) return 'never_asked';
  return (lastAnswerAt ?? '') >= (lastFailureAt ?? '') ? 'answering' : 'failing';
}
