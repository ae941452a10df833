/** The guides of `/docs`: those files of the folder `docs` that a developer of an app, or its administrator, needs. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Marked, Tokens } from 'marked';
import { once } from '../../shared/once.ts';
import { escapeText, type Html } from '../../shared/pages/show.ts';

const require = createRequire(import.meta.url);
const FOLDER = join(import.meta.dirname, '../../..', 'docs');

/** The names of the files, in the order of the menu. */
const NAMES = [
  'tutorial',
  'your-front-end',
  'relay',
  'connected-apps',
  'providers',
  'provider-presets',
  'app-fields',
  'administrators',
  'import-connections',
  'bin-data',
  'operating',
  'backup',
];

export interface Guide {
  name: string;
  title: string;
  html: Html;
}

/** Reads the guides, with the first request for one of them: a start does not need them. */
export const readGuides = once((): ReadonlyMap<string, Guide> => {
  const { Marked } = require('marked') as typeof import('marked');
  const texts = NAMES.map((name) => [name, readFileSync(join(FOLDER, `${name}.md`), 'utf8')] as const);
  return new Map(
    texts.map(([name, text]) => {
      const title = /^# (.+)$/m.exec(text)?.[1] ?? name;
      return [name, { name, title, html: toHtml(new Marked(), text) }];
    }),
  );
});

function toHtml(marked: Marked, text: string): Html {
  const anchors = new Map<string, number>();
  let title = '';
  marked.use({
    renderer: {
      heading({ tokens, depth }: Tokens.Heading) {
        const content = this.parser.parseInline(tokens);
        title = withoutTags(content);
        return `<h${depth} id="${anchorOf(content, anchors)}">${content}</h${depth}>\n`;
      },
      link({ href, tokens }: Tokens.Link) {
        const content = this.parser.parseInline(tokens);
        const target = targetOf(href);
        return target === undefined ? content : `<a href="${escapeText(target)}">${content}</a>`;
      },
      image: ({ text: description }: Tokens.Image) => escapeText(description),
      // The guides have comments, which are for their authors.
      html: () => '',
      code: ({ text: code, lang = '' }: Tokens.Code) => {
        const [, name] = lang.split(' ');
        // Without a dot, it is the name of an example for the tests.
        const file = name?.includes('.') ? name : undefined;
        const caption = file === undefined ? '' : `<p class="fine"><code>${escapeText(file)}</code></p>\n`;
        return `${caption}<pre tabindex="0"><code>${escapeText(code)}</code></pre>\n`;
      },
      table({ header, rows }: Tokens.Table) {
        const names = header.map(({ tokens }) => this.parser.parseInline(tokens));
        const head = names.map((name) => (name === '' ? '<td></td>' : `<th>${name}</th>`)).join('');
        const cell = ({ tokens }: Tokens.TableCell, column: number) =>
          `<td data-label="${withoutTags(names[column] ?? '')}">${this.parser.parseInline(tokens)}</td>`;
        const body = rows.map((cells) => `<tr>${cells.map(cell).join('')}</tr>\n`).join('');
        return `<div class="docs-table" role="group" aria-label="Table: ${title}" tabindex="0"><table>\n<thead><tr>${head}</tr></thead>\n<tbody>${body}</tbody>\n</table></div>\n`;
      },
    },
  });
  return marked.parse(text, { async: false }) as Html;
}

const withoutTags = (html: string) => html.replace(/<[^>]*>/g, '');

/** Returns the anchor that GitHub gives to a heading, which the links of the guides use. */
function anchorOf(content: string, anchors: Map<string, number>): string {
  const words = withoutTags(content)
    .replace(/&[#\w]+;/g, '')
    .toLowerCase();
  const anchor = words.replace(/[^\p{L}\p{N}\s_-]/gu, '').replace(/\s/g, '-');
  const count = anchors.get(anchor) ?? 0;
  anchors.set(anchor, count + 1);
  return count === 0 ? anchor : `${anchor}-${count}`;
}

/** Returns undefined for the other files of the repository, which are not served. */
function targetOf(href: string): string | undefined {
  if (/^(https?:|mailto:|#)/.test(href)) return href;
  const [, name = '', anchor = ''] = /^([\w-]+)\.md(#.*)?$/.exec(href) ?? [];
  return NAMES.includes(name) ? `${name}${anchor}` : undefined;
}
