/** Generates a BIN data set with as many rows and issuers as the largest public one. */

import { once } from 'node:events';
import { createWriteStream } from 'node:fs';

const HEADER = 'BIN,Brand,Type,Category,Issuer,IssuerPhone,IssuerUrl,isoCode2,isoCode3,CountryName';
const BRANDS = ['VISA', 'MASTERCARD', 'AMERICAN EXPRESS', 'DISCOVER', 'MAESTRO', 'UNIONPAY'];
const CATEGORIES = ['CLASSIC', 'GOLD', 'PLATINUM', 'BUSINESS', 'PREPAID', 'CORPORATE', ''];
const COUNTRIES = ['US,USA,UNITED STATES', 'DK,DNK,DENMARK', 'SE,SWE,SWEDEN', 'BR,BRA,BRAZIL', 'JP,JPN,JAPAN'];
const ISSUERS = 20_000;

/** Writes the file. @returns the first BIN, which the others follow without gaps */
export async function writeRows(path: string, rows: number): Promise<number> {
  const first = 400_000;
  const file = createWriteStream(path);
  file.write(`${HEADER}\n`);
  for (let row = 0; row < rows; row++) {
    if (!file.write(lineOf(first + row, row))) await once(file, 'drain');
  }
  file.end();
  await once(file, 'finish');
  return first;
}

function lineOf(bin: number, row: number): string {
  // Issuers have runs of numbers with some scatter, like real ones.
  const issuer = Math.floor(row / 19 + (row % 7) * 131) % ISSUERS;
  const pick = <T>(list: readonly T[], seed: number) => list[seed % list.length];
  const facts = [bin, pick(BRANDS, issuer), row % 3 ? 'DEBIT' : 'CREDIT', pick(CATEGORIES, row)];
  const bank = [`BANK NUMBER ${issuer} OF THE BENCH`, `+1 555 ${issuer}`, `www.bank-${issuer}.example`];
  return `${[...facts, ...bank, pick(COUNTRIES, issuer)].join(',')}\n`;
}
