/** The facts that the texts of a record state about other fields than their own. */
import type { BinRecord } from './record.ts';
import { schemeFromName } from './scheme-name.ts';
import { cleanText, withoutCardNumber } from './texts.ts';
import { isNoFact, prepaidIn, statedType } from './vocabulary.ts';

const MAX_BRAND = 100;

/**
 * Adds to the record what the texts of its network and its type say: an unknown network stays as the beginning of the
 * brand, and a card is prepaid if its network, type or brand says so. If they disagree, nothing is said.
 * @param scheme the text from which the network was read, '' for none
 */
export function addStatedFacts(record: BinRecord, scheme: string, type: string): void {
  const statements = [record.prepaid, statedType(type)?.prepaid, prepaidIn(scheme), prepaidIn(record.brand ?? '')];
  if (scheme !== '' && record.scheme === undefined) addToBrand(record, scheme);
  const isPrepaid = statements.find((statement) => statement !== undefined);
  if (isPrepaid === undefined) return;
  if (statements.includes(!isPrepaid)) delete record.prepaid;
  else record.prepaid = isPrepaid;
}

function addToBrand(record: BinRecord, scheme: string): void {
  const text = isNoFact(scheme) || schemeFromName(scheme) ? undefined : withoutCardNumber(scheme, MAX_BRAND);
  if (text === undefined) return;
  const { brand = '' } = record;
  const isNamed = brand.toLowerCase().includes(text.toLowerCase());
  record.brand = isNamed ? brand : cleanText(`${text} ${brand}`, MAX_BRAND).trim();
}
