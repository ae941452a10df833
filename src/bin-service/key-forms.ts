/** Forms to make an API key and to change its allowed addresses. */
import { z } from 'zod';
import { networkFault } from '../shared/config/networks.ts';
import { words } from '../shared/pages/form.ts';

const MAX_NETWORKS = 50;

const network = z.string().superRefine((entry, context) => {
  const fault = networkFault(entry);
  if (fault) context.addIssue({ code: 'custom', message: `“${entry.slice(0, 50)}” ${fault}` });
});
const networks = words
  .transform((entries) => [...new Set(entries)])
  .pipe(z.array(network).max(MAX_NETWORKS, `Give at most ${MAX_NETWORKS} addresses.`));

export const addressesForm = z.object({ networks });
export const keyForm = z.object({
  name: z
    .string()
    .trim()
    .regex(/^\P{C}{1,60}$/u, 'Give the key a name of 1 to 60 characters.'),
  networks,
});
