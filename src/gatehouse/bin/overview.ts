/** The BIN overview for administrators: data set and coverage, call quota, health of the service, and cache. */
import { z } from 'zod';
import { countryByAlpha2 } from '../../shared/bin/country.ts';
import type { Coverage, DatasetAbout } from '../../shared/bin/dataset.ts';
import { describeFault, type RowFault, type SkipReason } from '../../shared/bin/row-fault.ts';
import type { Bins } from './bin.ts';
import { type UsedDataset, usedDatasets } from './rollback.ts';
import type { ServiceHealth } from './tally.ts';

/** The number of rows of a network or a country. */
const share = z.object({
  key: z.string().nullable().describe('the network, or the alpha-2 code; null for rows that name none'),
  name: z.string(),
  rows: z.int(),
});
const about = { source: z.string(), asOf: z.iso.date(), licence: z.string(), rows: z.int() };
const instant = z.iso.datetime();

/** As JSON, and for the page. */
/** `detail`: the reason in words. */
export const faultJson = z.object({ line: z.int(), reason: z.string(), detail: z.string() });

export const faultView = ({ line, reason, value }: RowFault): z.output<typeof faultJson> => ({
  line,
  reason,
  detail: describeFault({ reason, ...(value !== undefined && { value }) }),
});

export const reasonJson = z.object({ reason: z.string(), rows: z.int(), line: z.int(), detail: z.string() });

export const reasonView = ({ count, first }: SkipReason): z.output<typeof reasonJson> => ({
  reason: first.reason,
  rows: count,
  line: first.line,
  detail: faultView(first).detail,
});

export const notUnderstoodJson = z.array(
  z.object({
    column: z.string(),
    rows: z.int(),
    values: z.array(z.object({ value: z.string(), rows: z.int() })).describe('the commonest values, at most five'),
  }),
);

export const conflictsJson = z.object({
  count: z.int(),
  ranges: z.array(z.object({ lines: z.array(z.int()) })),
});

export const binOverviewSchema = z.object({
  dataset: z.object({
    origin: z
      .enum(['file', 'import', 'built_in'])
      .describe('file: BIN_DATASET_FILE, which takes precedence over an import'),
    ...about,
    badRows: z.int().nullable().describe('rows left out; null for the built-in data set'),
    faults: z.array(faultJson).describe('the first hundred rows left out'),
    reasons: z.array(reasonJson).describe('why rows were left out, each with its first line'),
    conflicts: conflictsJson
      .nullable()
      .describe('BINs that come more than once with different facts, which keep what their rows share; with the lines'),
    notUnderstood: notUnderstoodJson.describe(
      'values of network, type, prepaid, length and check digit that were left out',
    ),
    importedAt: instant.nullable(),
  }),
  previous: z
    .object({ id: z.string(), ...about, importedAt: instant.nullable() })
    .nullable()
    .describe('the data set that "bin rollback" would restore; the id of the built-in one is built_in'),
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
    .describe('calls to the BIN lookup service this month (UTC); null if no service is configured'),
  service: z.object({
    status: z.enum(['not_configured', 'not_called', 'working', 'failing']),
    lastResponseAt: instant.optional(),
    lastFailureAt: instant.optional(),
    lastFailure: z.string().optional(),
  }),
  /** For this UTC month and all processes. */
  lookups: z.object({ month: z.string(), outcomes: z.record(z.string(), z.int()) }),
  /** `hitRate`: 0 to 1; null if the cache has not been used this month. */
  cache: z.object({ hits: z.int(), misses: z.int(), hitRate: z.number().nullable() }),
});

export type BinOverview = z.output<typeof binOverviewSchema>;
export type Share = z.output<typeof share>;

/** @throws AppError `storage_unavailable` */
export async function overviewOf(bins: Bins): Promise<BinOverview> {
  const [versions, quota, tally] = await Promise.all([
    bins.stored.versions(),
    bins.quota?.status() ?? null,
    bins.tally.report(),
  ]);
  const previous = usedDatasets(versions, bins.builtIn)?.previous;
  const version = bins.dataset.version();
  const dataset = bins.dataset.current();
  const usedDataset = dataset ?? bins.builtIn();
  const report = bins.dataset.report();
  const origin = dataset ? (version ? 'import' : 'file') : 'built_in';
  const { month, outcomes, cache, service } = tally;
  const cacheReads = cache.hits + cache.misses;
  return {
    dataset: {
      origin,
      ...aboutOf(usedDataset),
      badRows: report?.skipped ?? null,
      faults: (report?.faults ?? []).map(faultView),
      reasons: (report?.reasons ?? []).map(reasonView),
      conflicts: report?.conflicts ?? null,
      notUnderstood: report?.notUnderstood ?? [],
      importedAt: version?.importedAt ?? null,
    },
    // While the file is used, a rollback would have no effect.
    previous: previous && origin !== 'file' ? previousView(previous) : null,
    ...coverageOf(usedDataset.coverage),
    quota,
    service: { status: quota ? serviceStatusOf(service) : 'not_configured', ...service },
    lookups: { month, outcomes },
    cache: { ...cache, hitRate: cacheReads === 0 ? null : cache.hits / cacheReads },
  };
}

function aboutOf({ source, asOf, licence, size }: DatasetAbout & { size: number }) {
  return { source, asOf, licence, rows: size };
}

function previousView(version: UsedDataset): BinOverview['previous'] {
  return { id: version.id, ...aboutOf(version), importedAt: version.importedAt };
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
    .sort((left, right) => right.rows - left.rows || left.name.localeCompare(right.name));
}

/** The status by the result of the last call to the service. */
export function serviceStatusOf({
  lastResponseAt,
  lastFailureAt,
}: ServiceHealth): 'not_called' | 'working' | 'failing' {
  if (lastResponseAt === undefined && lastFailureAt === undefined) return 'not_called';
  return (lastResponseAt ?? '') >= (lastFailureAt ?? '') ? 'working' : 'failing';
}
