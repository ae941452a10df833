/** The name of a token or an account. */
import { z } from 'zod';

export const givenName = z.string().trim().min(1, 'Enter a name.').max(100, 'Enter a name of at most 100 characters.');
