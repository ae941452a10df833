/** Countries and their currencies, compared with ISO 3166-1 and ISO 4217. */
import { createRequire } from 'node:module';
import { expect, test } from 'vitest';
import type { Countries } from 'world-countries';
import { countryByAlpha2 } from '../../../src/shared/bin/country.ts';

/**
 * ISO 4217 list one, without units of account: the currencies, each with its countries. The edition of 25 June 2024
 * (https://www.six-group.com/dam/download/financial-information/data-center/iso-currrency/lists/list-one.xml), with the
 * amendments 176 (XCG), 178 (CUC) and 180 (Bulgaria), which have been in force since 1 January 2026
 * (…/iso-currrency/amendments/dl-currency-iso-amendment-180.pdf).
 */
const LIST_ONE = `
  AED AE; AFN AF; ALL AL; AMD AM; AOA AO; ARS AR; AUD AU CC CX HM KI NF NR TV; AWG AW; AZN AZ; BAM BA; BBD BB
  BDT BD; BHD BH; BIF BI; BMD BM; BND BN; BOB BO; BRL BR; BSD BS; BTN BT; BWP BW; BYN BY; BZD BZ; CAD CA; CDF CD
  CHF CH LI; CLP CL; CNY CN; COP CO; CRC CR; CUP CU; CVE CV; CZK CZ; DJF DJ; DKK DK FO GL; DOP DO; DZD DZ; EGP EG
  ERN ER; ETB ET
  EUR AD AT AX BE BG BL CY DE EE ES FI FR GF GP GR HR IE IT LT LU LV MC ME MF MQ MT NL PM PT RE SI SK SM TF VA YT
  FJD FJ; FKP FK; GBP GB GG IM JE; GEL GE; GHS GH; GIP GI; GMD GM; GNF GN; GTQ GT; GYD GY; HKD HK; HNL HN; HTG HT
  HUF HU; IDR ID; ILS IL; INR BT IN; IQD IQ; IRR IR; ISK IS; JMD JM; JOD JO; JPY JP; KES KE; KGS KG; KHR KH
  KMF KM; KPW KP; KRW KR; KWD KW; KYD KY; KZT KZ; LAK LA; LBP LB; LKR LK; LRD LR; LSL LS; LYD LY; MAD EH MA
  MDL MD; MGA MG; MKD MK; MMK MM; MNT MN; MOP MO; MRU MR; MUR MU; MVR MV; MWK MW; MXN MX; MYR MY; MZN MZ; NAD NA
  NGN NG; NIO NI; NOK BV NO SJ; NPR NP; NZD CK NU NZ PN TK; OMR OM; PAB PA; PEN PE; PGK PG; PHP PH; PKR PK; PLN PL
  PYG PY; QAR QA; RON RO; RSD RS; RUB RU; RWF RW; SAR SA; SBD SB; SCR SC; SDG SD; SEK SE; SGD SG; SHP SH; SLE SL
  SOS SO; SRD SR; SSP SS; STN ST; SVC SV; SYP SY; SZL SZ; THB TH; TJS TJ; TMT TM; TND TN; TOP TO; TRY TR; TTD TT
  TWD TW; TZS TZ; UAH UA; UGX UG; USD AS BQ EC FM GU HT IO MH MP PA PR PW SV TC TL UM US VG VI; UYU UY; UZS UZ
  VED VE; VES VE; VND VN; VUV VU; WST WS; XAF CF CG CM GA GQ TD; XCD AG AI DM GD KN LC MS VC; XCG CW SX
  XOF BF BJ CI GW ML NE SN TG; XPF NC PF WF; YER YE; ZAR LS NA ZA; ZMW ZM; ZWG ZW
`;

/** Countries that have no currency in list one: those of CLDR 48 (supplemental/currencyData.json), or none. */
const NOT_LISTED: Readonly<Record<string, string | undefined>> = { AQ: undefined, GS: 'GBP', PS: 'ILS', XK: 'EUR' };

/** Of two listed currencies, the one of the country itself. El Salvador has no colones in circulation. */
const OWN: Readonly<Record<string, string>> = {
  BT: 'BTN',
  HT: 'HTG',
  LS: 'LSL',
  NA: 'NAD',
  PA: 'PAB',
  SV: 'USD',
  VE: 'VES',
};

const listed = new Map<string, string[]>();
for (const [currency = '', ...countries] of LIST_ONE.split(/[;\n]/).map((part) => part.trim().split(' ')))
  for (const country of countries) listed.set(country, [...(listed.get(country) ?? []), currency]);

const packaged: Countries = createRequire(import.meta.url)('world-countries');
const codes = packaged.map(({ cca2 }) => cca2);

test('the countries are those of ISO 3166-1, and Kosovo', () => {
  expect(codes).toHaveLength(249 + 1);
  expect(codes.filter((code) => !listed.has(code)).sort()).toEqual(Object.keys(NOT_LISTED).sort());
  expect([...listed.keys()].filter((code) => !countryByAlpha2(code))).toEqual([]);
});

test.each(codes)('%s has its currency of ISO 4217', (code) => {
  const currencies = listed.get(code) ?? [];
  const expected = code in NOT_LISTED ? NOT_LISTED[code] : (OWN[code] ?? currencies[0]);
  if (code in OWN) expect(currencies).toContain(expected);
  else expect(currencies.length).toBeLessThan(2);
  expect(countryByAlpha2(code)?.currency).toBe(expected);
});
