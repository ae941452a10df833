/** Small text transformations that several modules need. */

export const capitalised = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

export const uncapitalised = (text: string): string => text.charAt(0).toLowerCase() + text.slice(1);

/** Quotes a text for a POSIX shell. */
export const shellQuoted = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;
