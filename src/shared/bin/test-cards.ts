/** The BIN records, for the sandbox, of the test cards that payment providers publish. */
import type { Dataset } from './dataset.ts';
import { createDataset } from './dataset-builder.ts';

/**
 * The first digits of the numbers on https://docs.stripe.com/testing and of other providers; those of UnionPay with a
 * type as in https://docs.connect.worldline-solutions.com/testing/testcases/detail/unionpay-international-securepay. An
 * empty type means credit or debit.
 */
const CARDS: readonly [prefix: string, scheme: string, type: string, brand: string, country: string][] = [
  ['424242', 'visa', 'credit', 'Visa Credit', 'US'],
  ['411111', 'visa', 'credit', 'Visa Credit', 'US'],
  ['401288', 'visa', 'credit', 'Visa Credit', 'US'],
  ['400005', 'visa', 'debit', 'Visa Debit', 'US'],
  ['555555', 'mastercard', 'credit', 'Mastercard Credit', 'US'],
  ['222300', 'mastercard', 'credit', 'Mastercard Credit', 'US'],
  ['510510', 'mastercard', 'debit', 'Mastercard Prepaid', 'US'],
  ['601111', 'discover', 'credit', 'Discover', 'US'],
  ['601100', 'discover', 'credit', 'Discover', 'US'],
  ['601198', 'discover', 'debit', 'Discover Debit', 'US'],
  ['305693', 'diners', 'credit', 'Diners Club', 'US'],
  ['362272', 'diners', 'credit', 'Diners Club', 'US'],
  ['385200', 'diners', 'credit', 'Diners Club', 'US'],
  ['353011', 'jcb', 'credit', 'JCB', 'JP'],
  ['356600', 'jcb', 'credit', 'JCB', 'JP'],
  ['620000', 'unionpay', '', 'UnionPay', 'CN'],
  ['62509405', 'unionpay', 'credit', 'UnionPay', 'CN'],
  ['62509460', 'unionpay', 'debit', 'UnionPay', 'CN'],
  ['62509470', 'unionpay', 'credit', 'UnionPay', 'CN'],
];

/** Returns the test cards. Every record has the bank name "Test card, no bank", so that test data is recognised. */
export function testCards(): Dataset {
  return createDataset({
    source: 'test cards of payment providers',
    asOf: '2026-11-23',
    licence: 'published by the payment providers',
    entries: CARDS.map(([prefix, scheme, type, brand, country]) => ({
      start: prefix,
      end: prefix,
      scheme,
      type,
      brand,
      country,
      prepaid: brand.includes('Prepaid'),
      bank: { name: 'Test card, no bank' },
    })),
  });
}
