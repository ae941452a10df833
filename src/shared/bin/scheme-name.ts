/** The names of card networks, which sources spell differently. The list is closed: other names are no networks. */
import { remembering, wordsOf } from './vocabulary.ts';

/**
 * The network by its names. Names are compared without case, accents and punctuation, without the words of
 * `ADDITIONS`, and also without spaces.
 */
const NAMES: Readonly<Record<string, string>> = {
  amex: 'amex, american express, americanexpress, ae, ax, axp',
  bancontact: 'bancontact, bancontact mister cash, bcmc',
  cabal: 'cabal',
  cirrus: 'cirrus',
  dankort: 'dankort',
  'cartes bancaires': 'cartes bancaires, carte bancaire, groupement des cartes bancaires',
  diners: 'diners, diner, diners club, diner club, dinersclub, diner s club, dci, dinners, dinners club, carte blanche',
  discover: 'discover, discover financial services',
  eftpos: 'eftpos, eftpos australia',
  elo: 'elo',
  girocard: 'girocard',
  gpn: 'gpn',
  hipercard: 'hipercard',
  humo: 'humo',
  interac: 'interac',
  jcb: 'jcb, japan bureau, japanese bureau, japan credit bureau, japanese credit bureau',
  lankapay: 'lankapay',
  mada: 'mada',
  maestro: 'maestro, mastercard maestro, maestro uk, uk maestro, msi',
  mastercard: 'mastercard, master, mc, mci, mastercard worldwide, eurocard, eurocard mastercard, mcc',
  meeza: 'meeza',
  mir: 'mir, мир, nspk, nspk mir, mir nspk',
  napas: 'napas',
  pagobancomat: 'pagobancomat, bancomat',
  paypak: 'paypak',
  rupay: 'rupay, npci rupay, rupay npci',
  troy: 'troy',
  uatp: 'uatp, universal air travel plan, airplus uatp, uatp airplus',
  unionpay: 'unionpay, china unionpay, china unionpay cup, cup, upop, 银联, 中国银联, yinlian',
  uzcard: 'uzcard',
  verve: 'verve, verve interswitch, interswitch verve',
  visa: 'visa, visa electron, electron, visa delta, visa dankort, visa v pay, v pay, vpay, visa vpay, visa plus, vi, vis',
};

/** Words that do not change which network a name means. */
const ADDITIONS =
  /\b(?:inc|incorporated|ltd|llc|corp|corporation|co|company|plc|international|intl|int|worldwide|global|network|networks|scheme|payments?|cards?|credit|debit|prepaid|charge|consumer|commercial|business|classic|brand|gold|platinum|titanium|signature|infinite|world|elite|standard|premium|the|tm|r)\b/g;

/** Between the names of several networks, such as in Mastercard/Maestro. */
const BETWEEN_NAMES = /[/|&,;+]|\b(?:or|and)\b/i;

const schemes = new Map(
  Object.entries(NAMES).flatMap(([scheme, names]) => names.split(', ').map((name) => [joined(wordsOf(name)), scheme])),
);

/** Returns the network as in BIN records, such as `amex` for `American Express`; undefined for any other name. */
export const schemeFromName = remembering((name): string | undefined => {
  const parts = new Set(name.split(BETWEEN_NAMES).map(schemeOfWords));
  parts.delete(undefined);
  // Cards of Visa and Dankort are known as Visa.
  parts.delete('dankort');
  return parts.size > 1 ? undefined : schemeOfWords(name);
});

function schemeOfWords(name: string): string | undefined {
  const words = wordsOf(name);
  return schemes.get(joined(words)) ?? schemes.get(joined(words.replace(ADDITIONS, '')));
}

function joined(words: string): string {
  return words.replaceAll(' ', '');
}
