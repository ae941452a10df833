/** Runs `enrichCsv` on a file in memory, with a lookup that knows every BIN that does not start with 9. */
import { Readable } from 'node:stream';
import { type EnrichReport, enrichCsv } from '../../src/gatehouse/bin/enrich.ts';
import type { LookupFound, LookupResult } from '../../src/shared/bin/lookup-result.ts';
import type { Bin } from '../../src/shared/bin/parse-bin.ts';

export const FOUND: LookupFound = {
  record: { scheme: 'visa', type: 'debit', prepaid: false, country: { alpha2: 'DK' }, bank: { name: 'A, "B"' } },
  source: 'dataset',
  asOf: '2026-01-02',
  digitsMatched: 6,
};

/** Returns the `report`, or the `error` if the file was refused. */
export async function enrich(csv: string | Buffer | Iterable<string>, column = 'bin', result: LookupResult = FOUND) {
  const chunks = typeof csv === 'string' || Buffer.isBuffer(csv) ? [csv] : csv;
  const lookedUp: Bin[][] = [];
  let written = '';
  const run: Promise<{ report?: EnrichReport; error?: Error }> = enrichCsv({
    input: Readable.from(chunks).map((chunk) => Buffer.from(chunk)),
    column,
    lookup: {
      lookUp: async () => result,
      async lookUpMany(bins) {
        lookedUp.push([...bins]);
        return bins.map((bin) => (bin.startsWith('9') ? { problem: 'bin_not_found' } : result));
      },
    },
    async write(text) {
      written += text;
    },
  }).then(
    (report) => ({ report }),
    (error: unknown) => (error instanceof Error ? { error } : Promise.reject(error)),
  );
  const { report, error } = await run;
  return { report, error, lookedUp, written: () => written };
}
