/** Small text transformations that several modules need. */

export const capitalised = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

export const uncapitalised = (text: string): string => text.charAt(0).toLowerCase() + text.slice(1);

/** Returns the name of each item; those that several items have are followed by the id. */
export function distinctNames<T extends { id: string; name: string }>(
  items: readonly T[],
): { id: string; name: string }[] {
  const counts = new Map<string, number>();
  for (const { name } of items) counts.set(name, (counts.get(name) ?? 0) + 1);
  return items.map(({ id, name }) => ({ id, name: counts.get(name) === 1 ? name : `${name} (${id})` }));
}

let segmenter: Intl.Segmenter | undefined;

/** Returns the characters as users see them: grapheme clusters (Unicode Standard Annex #29). */
const charactersOf = (text: string): Intl.Segments => {
  // Creating the first one takes tens of milliseconds, which a start does not wait for.
  segmenter ??= new Intl.Segmenter('en', { granularity: 'grapheme' });
  return segmenter.segment(text);
};

/**
 * Cuts a text that people wrote. A character is kept or left out as a whole, such as an emoji, a flag, or a letter with
 * its marks, so the result can be shorter than the limit.
 * @param maxLength in UTF-16 units, as `length` and Zod's `max` count: an emoji has two or more
 */
export function cutText(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text;
  return text.slice(0, charactersOf(text).containing(maxLength)?.index ?? 0);
}

/** Returns the number of characters as users see them. */
export const characterCount = (text: string): number => [...charactersOf(text)].length;

/**
 * Returns shell commands that ask for a value without showing it, so that the history of the shell does not have it.
 * `read -s` is not in POSIX: dash, the `sh` of Debian, refuses it.
 */
export const askFor = (variable: string, words: string): string =>
  `printf '${words}: ' >&2; stty -echo; IFS= read -r ${variable}; stty echo; echo >&2`;

/** Quotes a text for a POSIX shell. */
export const shellQuoted = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;
