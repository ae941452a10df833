/** The two data sets that a rollback swaps: the last import, and the one that was used before it. */
import type { Dataset, DatasetAbout } from '../../shared/bin/dataset.ts';
import { BUILT_IN_ID, type DatasetVersion, type DatasetVersions } from './stored-dataset.ts';

/** An import, or the built-in data set, described without loading it. */
export type UsedDataset = DatasetVersion | (DatasetAbout & { id: string; size: number; importedAt: null });

/** Returns undefined if nothing was ever imported. */
export function usedDatasets(
  versions: DatasetVersions | undefined,
  builtIn: () => Dataset,
): { current: UsedDataset; previous: UsedDataset } | undefined {
  if (!versions) return undefined;
  const builtInDescription = () => {
    const { source, asOf, licence, size } = builtIn();
    return { id: BUILT_IN_ID, source, asOf, licence, size, importedAt: null };
  };
  return { current: versions.current ?? builtInDescription(), previous: versions.previous ?? builtInDescription() };
}
