/** The BIN overview for administrators: data set and coverage, call quota, health of the service, and cache. */
import type { Bins } from './bin.ts';
import { countryByAlpha2 } from './country.ts';
import type { Coverage, DatasetAbout } from './dataset.ts';
import type { RowFault } from './dataset-file.ts';
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
  /** Skipped rows; null for the built-in data set. */
  badRows: number | null;
  /** The first hundred skipped rows. */
  faults: readonly RowFault[];
  importedAt: string | null;
}

/** Number of rows of a network or country. `key`: null for rows without one. */
export interface Share {
  key: string | null;
  name: string;
  rows: number;
}

export interface BinOverview {
  dataset: DatasetView;
  /** The data set that `bin rollback` would restore. */
  previous: Pick<DatasetView, 'source' | 'asOf' | 'licence' | 'rows' | 'importedAt'> | null;
  networks: Share[];
  countries: Share[];
  quota: QuotaStatus | null;
  service: { status: 'not_set' | 'never_asked' | 'answering' | 'failing' } & ServiceHealth;
  /** For this UTC month and all processes. */
  lookups: { month: string; outcomes: Record<LookupOutcome, number> };
  /** `hitRate`: 0 to 1; null if the cache has not been used this month. */
  cache: { hits: number; misses: number; hitRate: number | null };
}

/** @throws AppError `storage_unavailable` */
export async function overviewOf(bins: Bins): Promise<BinOverview> {
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
  const lookUps = cache.hits + cache.misses;
  return {
    dataset: {
      origin,
      ...aboutOf(shown),
      badRows: report?.skipped ?? null,
      faults: report?.faults ?? [],
      importedAt: version?.importedAt ?? null,
    },
    // While the file is used, a rollback would have no effect.
    previous: versions?.previous && origin !== 'file' ? previousView(versions.previous) : null,
    ...coverageOf(shown.coverage),
    quota,
    service: { status: quota ? statusOf(service) : 'not_set', ...service },
    lookups: { month, outcomes },
    cache: { ...cache, hitRate: lookUps === 0 ? null : cache.hits / lookUps },
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
