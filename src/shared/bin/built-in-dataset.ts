/** The built-in data set: the prefixes of banks-db, and the public example of the BIN lookup service. */
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { once } from '../once.ts';
import { createDataset, type DatasetEntry } from './dataset-builder.ts';
import { networkOfBin } from './network.ts';
import { bareUrl, cleanText } from './texts.ts';

/** Required wherever the built-in data set is described (CC BY 4.0, section 3). */
export const BUILT_IN_ATTRIBUTION =
  'Bank names by prefix: banks-db 0.12.0 by Linda Rian and contributors (https://github.com/ramoona/banks-db), CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/); completed here with country facts and network rules.';

/** Describes the data set on pages and in docs/bin-data.md. */
export const BUILT_IN_ABOUT =
  'The built-in data set is an example, so that a first lookup has a response. It is banks-db of July 2017, 90 % of its prefixes are of the United States, and it does not know type, brand, prepaid, and the telephone number and city of the bank.';
export const REAL_USE =
  'For real use, import a current data set: bin-list-data (about 375,000 BINs of 6 digits, CC BY 4.0, last changed in February 2025; BINs that have lost their leading zeros are left out), or the account ranges that a card network or your acquirer gives you.';

/** The date of the last change of bin-list-data, which the command imports. */
export const IMPORT_AS_OF = '2025-02-11';
export const IMPORT_COMMAND = String.raw`curl -fLo bins.csv \
  https://raw.githubusercontent.com/venelinkochev/bin-list-data/master/bin-list-data.csv &&
npm run gatehouse -- bin import bins.csv --as-of ${IMPORT_AS_OF} \
  --source "bin-list-data by Venelin Kochev" --licence "CC BY 4.0"`;

/** Date of the release of banks-db. */
export const BUILT_IN_AS_OF = '2017-07-16';

const ABOUT = {
  source: 'banks-db 0.12.0',
  asOf: BUILT_IN_AS_OF,
  licence: 'CC BY 4.0',
};

const banksSchema = z.array(
  z.object({
    country: z.string().length(2),
    engTitle: z.string().optional(),
    localTitle: z.string(),
    url: z.string().optional(),
    prefixes: z.array(z.number()),
  }),
);

/** The example that the BIN lookup service publishes. */
const EXAMPLE: DatasetEntry = {
  start: '45717360',
  end: '45717360',
  number: { length: 16, luhn: true },
  scheme: 'visa',
  type: 'debit',
  brand: 'Visa/Dankort',
  prepaid: false,
  country: 'DK',
  bank: { name: 'Jyske Bank', url: 'www.jyskebank.dk', phone: '+4589893300', city: 'Hjørring' },
};

const require = createRequire(import.meta.url);

/** Returns the built-in data set. The first call reads and builds it, which blocks the process for about 100 ms. */
export const builtInDataset = once(readBanksDb);

/** Reads the file of each bank in the order of banks-db, which itself loads modules, and is four times slower. */
function readBanks(directory: string): unknown[] {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.json'))
    .sort()
    .map((path) => JSON.parse(readFileSync(join(directory, path), 'utf8')));
}

/** A prefix of several banks keeps the facts that they share. */
function readBanksDb() {
  const banks = banksSchema.parse(readBanks(join(dirname(require.resolve('banks-db')), 'banks')));
  return createDataset({ ...ABOUT, entries: banks.flatMap(entriesOf).concat(EXAMPLE) });
}

function entriesOf(bank: z.infer<typeof banksSchema>[number]): DatasetEntry[] {
  const url = bareUrl(bank.url ?? '');
  const facts = {
    country: bank.country.toUpperCase(),
    bank: { name: cleanText(bank.engTitle ?? bank.localTitle, 200), ...(url && { url }) },
  };
  return bank.prefixes.map(String).map((prefix) => {
    const scheme = networkOfBin(prefix)?.scheme;
    return { ...rangeOf(prefix), ...(scheme && { scheme }), ...facts };
  });
}

/** Converts a prefix into a range of six digits. Among overlapping ranges, the narrowest takes precedence. */
function rangeOf(prefix: string): { start: string; end: string } {
  return { start: prefix.padEnd(6, '0'), end: prefix.padEnd(6, '9') };
}
