/** Puts the faults of a form into the order in which the page draws their fields, so that no schema has to keep it. */
import type { FieldFault } from './page-data.ts';

const idOf = (field: string) => ` id="${field}"`;

/**
 * Faults of the whole form come first, and with them those of fields that the page lacks.
 * @param body the HTML of the page, in which the field is the id of its element
 */
export function inDrawnOrder(faults: readonly FieldFault[], body: string): FieldFault[] {
  const placeOf = ({ field }: FieldFault) => (field === '' ? -1 : body.indexOf(idOf(field)));
  return faults
    .toSorted((left, right) => placeOf(left) - placeOf(right))
    .map((fault) => (placeOf(fault) === -1 ? { ...fault, field: '' } : fault));
}

/** Lets the page begin in its first field that has a fault. */
export function withFocus(body: string, faults: readonly FieldFault[]): string {
  const first = inDrawnOrder(faults, body).find(({ field }) => field !== '');
  if (first === undefined) return body;
  const id = idOf(first.field);
  return body.replace(id, () => `${id} autofocus`);
}
