/** Reads the text that names the columns of a data set file, such as `start=LOW,end=HIGH,country=ISO`. */
import { z } from 'zod';
import { COLUMN_NAMES, type FileColumns } from '../../shared/bin/record.ts';
import { containsCardNumber } from '../../shared/observability/card-numbers.ts';

export const fileColumns = z.string().transform(columnsIn);

export function columnsIn(text: string, context: z.core.$RefinementCtx): FileColumns {
  const pairs = text.split(',').map((pair) => {
    const [field = '', ...name] = pair.split('=');
    return [field.trim(), name.join('=').trim()] as const;
  });
  const columns: FileColumns = Object.fromEntries(pairs);
  if (containsCardNumber(text)) context.addIssue('Remove the card number.');
  else if (!pairs.every(([field, name]) => COLUMN_NAMES.includes(field) && name !== ''))
    context.addIssue(`Enter FIELD=COLUMN pairs, separated by commas. The fields are: ${COLUMN_NAMES.join(', ')}.`);
  else if (Object.keys(columns).length < pairs.length) context.addIssue('Name each field once.');
  else if (!columns.start || !columns.country)
    context.addIssue(
      'Name at least the columns of start and country. To a file of one country, first add a column with its code.',
    );
  return columns;
}
