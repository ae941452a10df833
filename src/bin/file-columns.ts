/** The columns of the file that an import reads, as a command can name them. */

/** Facts that a column can hold. `start` and `end` are the limits of a range; without `end` it is one prefix. */
export const DATASET_FIELDS = [
  ...(['start', 'end', 'country', 'scheme', 'type', 'brand', 'prepaid', 'length', 'luhn'] as const),
  ...(['bank', 'url', 'phone', 'city'] as const),
];
export type DatasetField = (typeof DATASET_FIELDS)[number];

/** The name of the column for each fact. */
export type FileColumns = Partial<Record<DatasetField, string>>;
