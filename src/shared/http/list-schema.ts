/** The schema of every list of the JSON API: `?after=&limit=` and `{"items", "next"}`. */
import { z } from 'zod';

export const pageQuery = z.strictObject({
  after: z
    .string()
    .max(500)
    .transform((cursor) => cursor || undefined)
    .optional()
    .describe('the "next" of the previous page'),
  limit: z.coerce.number().int().min(1).max(200).default(50).describe('maximum number of items'),
});

export function listOf<T extends z.ZodType>(item: T) {
  return z.object({ items: z.array(item), next: z.string().optional() });
}
