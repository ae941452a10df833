/** Looks up country facts for BIN records by alpha-2 code, in world-countries (ODbL 1.0). */
import { createRequire } from 'node:module';
import type { Countries } from 'world-countries';
import { once } from '../once.ts';
import type { CountryFacts } from './record.ts';

export const COUNTRY_ATTRIBUTION =
  'Country facts: world-countries 5.1 by Mohammed Le Doze and contributors (https://github.com/mledoze/countries), ODbL 1.0.';

/** The currencies by ISO 4217 of countries for which the package lists none, an earlier one, or another one first. */
const CURRENCY: Readonly<Record<string, string>> = {
  BG: 'EUR',
  BV: 'NOK',
  CK: 'NZD',
  CU: 'CUP',
  CW: 'XCG',
  EH: 'MAD',
  FM: 'USD',
  GS: 'GBP',
  HM: 'AUD',
  PS: 'ILS',
  SH: 'SHP',
  SL: 'SLE',
  SX: 'XCG',
  ZW: 'ZWG',
};

/** Codes for countries that are not in ISO 3166-1, or have another code there. */
const OTHER_CODES: Readonly<Record<string, string>> = { UK: 'GB', EL: 'GR', XKX: 'XK' };

const require = createRequire(import.meta.url);

/** The package is loaded when the first country is looked up. */
const countries = once(() => {
  // The package's types describe a default export that its CommonJS entry does not have.
  const entries: Countries = require('world-countries');
  const facts = new Map(entries.map((country) => [country.cca2, Object.freeze(factsOf(country))]));
  const alpha2 = new Map(Object.entries(OTHER_CODES));
  for (const { cca2, cca3, ccn3 } of entries)
    for (const code of [cca3, withoutZeros(ccn3)]) if (code) alpha2.set(code, cca2);
  return { facts, alpha2 };
});

/** @param alpha2 upper case */
export function countryByAlpha2(alpha2: string): Readonly<CountryFacts> | undefined {
  return countries().facts.get(alpha2);
}

/**
 * @param code upper case: alpha-3 codes, numeric codes with or without leading zeros, UK, EL and XKX are converted;
 *   others are returned unchanged
 */
export function alpha2Of(code: string): string {
  return countries().alpha2.get(withoutZeros(code)) ?? code;
}

function withoutZeros(code: string): string {
  return code.startsWith('0') ? code.replace(/^0+/, '') : code;
}

function factsOf(country: Countries[number]): CountryFacts {
  const currency = CURRENCY[country.cca2] ?? Object.keys(country.currencies)[0];
  const [latitude, longitude] = country.latlng;
  return {
    ...(country.ccn3 && { numeric: country.ccn3 }),
    alpha2: country.cca2,
    name: country.name.common,
    emoji: flagOf(country.cca2),
    ...(currency && { currency }),
    latitude,
    longitude,
  };
}

/** Returns the flag: the code in regional indicator symbols (Unicode Technical Standard 51, annex B). */
function flagOf(alpha2: string): string {
  return String.fromCodePoint(...[...alpha2].map((letter) => 0x1f1e6 + letter.charCodeAt(0) - 65));
}
