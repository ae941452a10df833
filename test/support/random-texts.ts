/** For tests that look for digits: random values in a page or response may contain any digits. */

const RANDOM = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|name="_csrf" value="[^"]*"|127\.0\.0\.1:\d+/g;

/** Removes identifiers, CSRF tokens and ports. */
export const withoutRandomTexts = (text: string) => text.replaceAll(RANDOM, '');
