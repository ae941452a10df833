/** For tests that look for digits: what a page or a response draws at random may hold any. */

const DRAWN = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|name="_csrf" value="[^"]*"|127\.0\.0\.1:\d+/g;

/** `text` without identifiers, the value against cross-site request forgery, and ports. */
export const withoutRandomTexts = (text: string) => text.replaceAll(DRAWN, '');
