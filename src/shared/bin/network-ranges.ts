/**
 * The published ranges of card networks, each with its source. Where ranges of several networks overlap, no network is
 * named there: such ranges are listed for that reason alone.
 */

export interface RangeSource {
  title: string;
  address: string;
  /** The date of the document or the table, YYYY-MM-DD; without one, the day on which it was read. */
  date: string;
}

export const RANGE_SOURCES = {
  activeMerchant: {
    title: 'Active Merchant, which quotes the tables of BINs of Elo and of Discover Global Network',
    address:
      'https://github.com/activemerchant/active_merchant/blob/00401aff83d522e401fca8af23febdcf6cdd9100/lib/active_merchant/billing/credit_card_methods.rb',
    date: '2026-11-30',
  },
  amex: {
    title: 'American Express: check card faces',
    address:
      'https://www.americanexpress.com/sg/content/merchant/working-with-us/avoiding-card-fraud/check-card-faces.html',
    date: '2026-11-30',
  },
  binListData: {
    title: 'BIN List Data: RuPay, in prefixes that the table of Wikipedia gives to it',
    address: 'https://github.com/venelinkochev/bin-list-data',
    date: '2025-02-11',
  },
  creditCardType: {
    title: 'credit-card-type 10.3.0: ranges of Elo and Troy within those of other networks',
    address: 'https://www.npmjs.com/package/credit-card-type/v/10.3.0',
    date: '2026-06-30',
  },
  discover: {
    title: 'Discover Global Network: IIN range summary',
    address: 'https://docslib.org/doc/3993221/iin-range-summary',
    date: '2021-08-01',
  },
  mastercard: {
    title: 'Mastercard: BIN Lookup, support',
    address: 'https://developer.mastercard.com/bin-lookup/documentation/support/',
    date: '2026-11-30',
  },
  oracle: {
    title: 'Oracle Retail: standard card preambles, with the ranges of Discover Global Network',
    address: 'https://docs.oracle.com/cd/F14820_01/doc.191/f15052/r_payments_sample_cc_preambles.htm',
    date: '2026-11-30',
  },
  payform: {
    title: 'Payform: card rules, which cite Discover Network and, for Dankort, Nets',
    address: 'https://github.com/jondavidjohn/payform/blob/1062bacc429c59842b173a6b30b29d83dfad02c5/CARDRULES.md',
    date: '2026-11-30',
  },
  visa: {
    title: 'Visa: Car Rental Procedures Guide, how to identify a Visa card',
    address: 'http://www.who-sells-it.com/cy/visa-asia-1789/car-rental-procedures-guide-7288/page-4.html',
    date: '2026-11-30',
  },
  wikipedia: {
    title: 'Wikipedia: Payment card number, issuer identification numbers',
    address: 'https://en.wikipedia.org/wiki/Payment_card_number',
    date: '2024-07-19',
  },
} as const satisfies Readonly<Record<string, RangeSource>>;

export interface NetworkRange {
  scheme: string;
  source: keyof typeof RANGE_SOURCES;
  /** The first digits of its card numbers, such as `36` or `3528-3589`. The limits have the same length. */
  range: string;
}

/** By network and source. */
const RANGES: readonly (readonly [scheme: string, source: keyof typeof RANGE_SOURCES, ranges: string])[] = [
  ['visa', 'visa', '4'],
  ['mastercard', 'mastercard', '222100-272099 510000-559999'],
  ['maestro', 'mastercard', '639000-639099 670000-679999'],
  ['amex', 'amex', '34 37'],
  ['diners', 'discover', '300-305 3095 36'],
  ['diners', 'oracle', '38-39'],
  ['jcb', 'oracle', '3528-3589'],
  ['discover', 'payform', '6011 644-649 65'],
  ['unionpay', 'activeMerchant', '622126-623796 624-626 6282-6288 8100-8171'],
  ['dankort', 'payform', '5019'],
  ['mir', 'wikipedia', '2200-2204'],
  ['troy', 'wikipedia', '9792'],
  ['uatp', 'wikipedia', '1'],
  ['verve', 'wikipedia', '506099-506198 507865-507964 650002-650027'],
  ['rupay', 'binListData', '508500-508999 606985-607984 608001-608500 652150-653149 817200-820199'],
  [
    'elo',
    'activeMerchant',
    `506707-506708 506715 506717-506722 506724-506736 506739-506743 506745-506747 506753 506774-506778
     509000-509007 509009-509014 509020-509030 509035-509042 509044-509089 509091-509101 509104-509807
     509831-509877 509897-509900 509918-509964 509971-509986 509995-509999 627780 636297-636298 636368
     650031-650033 650035-650051 650057-650081 650406-650439 650485-650504 650506-650538 650552-650598
     650720-650727 650901-650922 650928 650938-650939 650946-650978 651652-651704 655000-655019 655021-655057`,
  ],
  [
    'elo',
    'creditCardType',
    '401178-401179 431274 438935 451416 457393 457631-457632 650405 650505 650541-650551 650700-650718 650923-650927',
  ],
  ['maestro', 'creditCardType', '493698'],
  [
    'troy',
    'creditCardType',
    `650052 650082-650083 650092 650161 650170 650173 650175 650268 650271 650273-650274 650456-650457 650836-650837
     650846-650850 650858-650862 650923 650987 650990 654997 657366 657998 658750-658788 658798 658808-658809`,
  ],
  ['cabal', 'activeMerchant', '650087 650272'],
  ['hipercard', 'activeMerchant', '384100 384140 384160'],
  ['lankapay', 'wikipedia', '357111'],
  ['gpn', 'wikipedia', '1946'],
];

export const NETWORK_RANGES: readonly NetworkRange[] = RANGES.flatMap(([scheme, source, ranges]) =>
  ranges.split(/\s+/).map((range) => ({ scheme, source, range })),
);
