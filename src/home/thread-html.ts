/** Owns which HTML of a platform's thread may stand on our pages. */
import sanitizeHtml from 'sanitize-html';
import type { SanitisedHtml } from '../http/page-data.ts';

const MAX_CHARACTERS = 200_000;
const CUT_SHORT = '<p>The thread is longer than this page shows.</p>';

// The page itself uses h1 to h3 (page, panel, thread), so the thread's own outline begins at h4.
const DEMOTED_HEADINGS = { h1: 'h4', h2: 'h5', h3: 'h6', h4: 'h6', h5: 'h6', h6: 'h6' };

const OPTIONS: sanitizeHtml.IOptions = {
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
      // A relative address would lead into this site instead of the platform.
      attribs: {
        ...(href && /^(https?:|mailto:)/i.test(href.trim()) ? { href } : {}),
        rel: 'noopener noreferrer nofollow',
      },
    }),
    // A remote picture would tell its host who reads this; its description is kept.
    img: (_tagName, { alt }) => ({ tagName: 'span', attribs: {}, text: alt ? `[Picture: ${alt}]` : '[Picture]' }),
  },
};

/** Thread HTML of the platform with everything taken out that could run, load, style or pretend. */
export function sanitizeThreadHtml(html: string): SanitisedHtml {
  const clean = sanitizeHtml(html.slice(0, MAX_CHARACTERS), OPTIONS);
  return (html.length > MAX_CHARACTERS ? clean + CUT_SHORT : clean) as SanitisedHtml;
}

/** Without the heading at the top that repeats the title, which the page shows by itself. */
export function withoutTitle(html: SanitisedHtml, title: string): SanitisedHtml {
  const heading = /^\s*<h([1-6])>([^<]*)<\/h\1>/.exec(html);
  const repeats = heading && sanitizeThreadHtml(title) === heading[2];
  return repeats ? (html.slice(heading[0].length) as SanitisedHtml) : html;
}
