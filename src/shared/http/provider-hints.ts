/** Hints for the provider in a link or form: account, prompt and languages (OpenID Connect Core section 3.1.2.1). */
import { z } from 'zod';
import { AppError } from '../errors.ts';
import { holdsCardNumber } from './card-numbers.ts';

const MAX_LOCALES = 10;

const hintText = (isValid: (value: string) => boolean, error: string, description: string) =>
  z.string(error).max(255, error).refine(isValid, error).optional().describe(description);

/** The fields of a query or form. */
export const hintFields = {
  login_hint: hintText(
    (value) => !/[\p{Cc}\p{Cf}\p{Cs}]/u.test(value) && !holdsCardNumber(value),
    'Send "login_hint" once: an account of at most 255 characters, without control characters and card numbers.',
    'the account at the provider, such as an e-mail address, of at most 255 characters',
  ),
  prompt: z
    .enum(['select_account', 'login'], 'Send "prompt" once: select_account or login.')
    .optional()
    .describe(
      'select_account: the provider lets the user choose an account; login: the provider asks for the password again',
    ),
  ui_locales: hintText(
    areLocales,
    `Send "ui_locales" once: at most ${MAX_LOCALES} language tags (BCP 47) with one space between them.`,
    `languages of the provider's pages: at most ${MAX_LOCALES} language tags (BCP 47) with spaces between them`,
  ),
};

const hintsSchema = z.object(hintFields);

/** The hints of a request. A hint that is missing or empty has no member. */
export type ProviderHints = { [Name in keyof typeof hintFields]?: NonNullable<z.output<typeof hintsSchema>[Name]> };

/**
 * Reads and checks the hints.
 * @param read returns a query parameter or form field; an empty one counts as absent
 * @throws AppError `invalid_request`, which does not repeat the value
 */
export function readHints(read: (name: string) => unknown): ProviderHints {
  const hints = Object.keys(hintFields).flatMap((name) => {
    const value = read(name);
    return value === undefined || value === '' ? [] : [[name, value]];
  });
  const parsed = hintsSchema.safeParse(Object.fromEntries(hints));
  if (parsed.success) return parsed.data as ProviderHints;
  throw new AppError('invalid_request', { detail: parsed.error.issues[0]?.message });
}

function areLocales(value: string): boolean {
  const tags = value.split(' ');
  try {
    return tags.length <= MAX_LOCALES && Intl.getCanonicalLocales(tags).length > 0;
  } catch {
    return false;
  }
}
