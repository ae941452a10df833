/** Sanitises the HTML of a platform's thread for our pages. */
import { createRequire } from 'node:module';
import type SanitizeHtml from 'sanitize-html';
import type { SanitisedHtml } from '../../shared/pages/page-data.ts';

const require = createRequire(import.meta.url);

/** The parser's work for each tag grows with the number of open tags. Chromium itself allows 512. */
const MAX_OPEN_TAGS = 256;

// The page itself uses h1 to h3 (page, panel, thread), so the thread's own outline begins at h4.
const DEMOTED_HEADINGS = { h1: 'h4', h2: 'h5', h3: 'h6', h4: 'h6', h5: 'h6', h6: 'h6' };

const OPTIONS: SanitizeHtml.IOptions = {
  allowedTags: [
    ...['h4', 'h5', 'h6', 'p', 'br', 'hr', 'blockquote', 'pre', 'code', 'ul', 'ol', 'li', 'dl', 'dt', 'dd'],
    ...['table', 'caption', 'thead', 'tbody', 'tfoot', 'tr', 'th', 'td'],
    ...['strong', 'em', 'b', 'i', 'u', 's', 'del', 'ins', 'sub', 'sup', 'mark', 'small', 'abbr', 'span', 'a'],
  ],
  allowedAttributes: { a: ['href', 'rel'] },
  allowedSchemes: ['https', 'http', 'mailto'],
  allowedSchemesByTag: {},
  allowProtocolRelative: false,
  disallowedTagsMode: 'discard',
  nonTextTags: [
    'script',
    'style',
    'textarea',
    'option',
    'noscript',
    'template',
    'title',
    'svg',
    'math',
    'iframe',
    'object',
  ],
  enforceHtmlBoundary: false,
  parseStyleAttributes: false,
  nestingLimit: 40,
  transformTags: {
    ...DEMOTED_HEADINGS,
    a: (_tagName, { href }) => ({
      tagName: 'a',
      // A relative link would point into this site instead of the platform's. No URL has "<" in it (RFC 3986, section
      // 2), and the sanitiser's work on comments in one grows with the square of their number.
      attribs: {
        ...(href && /^(https?:|mailto:)[^<]*$/i.test(href.trim()) ? { href } : {}),
        rel: 'noopener noreferrer nofollow',
      },
    }),
    // A remote image would reveal the reader to its host, so only its description is shown.
    img: (_tagName, { alt }) => ({ tagName: 'span', attribs: {}, text: alt ? `[Picture: ${alt}]` : '[Picture]' }),
  },
};

/**
 * Removes everything that could run code, load resources, change the style or imitate our page.
 * Returns undefined if more than 256 tags are open at once, so that the work stays proportional to the text.
 */
export function sanitizeThreadHtml(html: string): SanitisedHtml | undefined {
  // Loaded with the first thread.
  const sanitizeHtml: typeof SanitizeHtml = require('sanitize-html');
  let open = 0;
  const onOpenTag = () => {
    if (++open > MAX_OPEN_TAGS) throw new TooManyOpenTags();
  };
  const onCloseTag = () => {
    open--;
  };
  try {
    return sanitizeHtml(html, { ...OPTIONS, onOpenTag, onCloseTag }) as SanitisedHtml;
  } catch (error) {
    if (error instanceof TooManyOpenTags) return undefined;
    throw error;
  }
}

class TooManyOpenTags extends Error {}

/** Removes a first heading that repeats the title, which the page already shows. */
export function withoutTitle(html: SanitisedHtml, title: string): SanitisedHtml {
  const heading = /^\s*<h([1-6])>([^<]*)<\/h\1>/.exec(html);
  const repeats = heading && escapeText(title) === heading[2];
  return repeats ? (html.slice(heading[0].length) as SanitisedHtml) : html;
}

/**
 * Renumbers the headings: the first is an h4, and each is at most one level below the one before it. A thread may
 * begin with an h2, and removing the title leaves a gap.
 */
export function withoutGaps(html: SanitisedHtml): SanitisedHtml {
  const above: number[] = [];
  const open: number[] = [];
  return html.replace(/<(\/?)h([4-6])>/g, (_tag, end: string, digit: string) => {
    if (end) return `</h${open.pop() ?? 4}>`;
    const level = Number(digit);
    while ((above.at(-1) ?? 0) >= level) above.pop();
    above.push(level);
    open.push(3 + above.length);
    return `<h${3 + above.length}>`;
  }) as SanitisedHtml;
}

/** Escapes the same characters as the sanitiser. */
function escapeText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
