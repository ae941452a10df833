/** Finds BIN facts without a call. Gatehouse and the BIN lookup service use the same sources in the same order. */
import type { Dataset } from './dataset.ts';
import type { LookupFound } from './lookup-result.ts';
import { NETWORK_RULES_AS_OF, networkOfBin } from './network.ts';
import type { Bin } from './parse-bin.ts';

/** Functions that return a data set, or undefined while there is none. They are called in the order of the search. */
export type DatasetSources = readonly (() => Dataset | undefined)[];

/**
 * Finds the BIN in the data sets, then in the published rules of the card networks. A match with a country takes
 * precedence over one without.
 */
export function findLocalFacts(bin: Bin, sources: DatasetSources): LookupFound | undefined {
  let withoutCountry: LookupFound | undefined;
  for (const source of sources) {
    const match = findInDataset(bin, source());
    if (match?.record.country) return match;
    withoutCountry ??= match;
  }
  return withoutCountry ?? fromRules(bin);
}

export function findInDataset(bin: Bin, dataset: Dataset | undefined): LookupFound | undefined {
  const hit = dataset?.find(bin);
  return dataset && hit && { ...hit, source: 'dataset', asOf: dataset.asOf };
}

function fromRules(bin: Bin): LookupFound | undefined {
  const network = networkOfBin(bin);
  if (!network) return undefined;
  const { number, scheme, digitsMatched } = network;
  return {
    record: number ? { number, scheme } : { scheme },
    source: 'rules',
    asOf: NETWORK_RULES_AS_OF,
    digitsMatched,
  };
}
