/** Rows of a data set whose words are of closed lists, or not, and the facts that every lookup has of them. */
export const CLOSED_LIST_HEADER = 'bin;brand;type;category;issuer;alpha_2';

interface ClosedListRow {
  bin: string;
  cells: string;
  facts: { scheme?: string; type?: string; brand?: string; prepaid?: boolean; bank?: string };
}

export const CLOSED_LIST_ROWS: readonly ClosedListRow[] = [
  { bin: '430000', cells: 'NSPK MIR;D;;Bank A', facts: { scheme: 'mir', type: 'debit', bank: 'Bank A' } },
  { bin: '430001', cells: 'VISA;PREPAID;#DIV/0!;(blank)', facts: { scheme: 'visa', prepaid: true } },
  {
    bin: '430002',
    cells: 'Mastercard/Maestro;Credit/Debit;EX-PREPAID;N/A',
    facts: { brand: 'Mastercard/Maestro EX-PREPAID', prepaid: false },
  },
  { bin: '430003', cells: 'LOCAL;DEFERRED_DEBIT;NULL;-', facts: { type: 'deferred debit', brand: 'LOCAL' } },
  { bin: '430004', cells: ';signature;nan;**', facts: {} },
];
