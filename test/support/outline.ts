/** A page as readable lines: its title, then the headings, texts, tables, links and fields of its main part. */
import { attributesOf, decode } from './html-forms.ts';

const BLOCKS = new Set([
  'main',
  'header',
  'nav',
  'section',
  'h1',
  'h2',
  'h3',
  'h4',
  'p',
  'pre',
  'figure',
  'figcaption',
  'div',
  'ul',
  'ol',
  'li',
  'dl',
  'dt',
  'table',
  'thead',
  'tbody',
  'tr',
  'details',
  'summary',
  'form',
  'fieldset',
  'legend',
  'label',
]);
const PREFIXES: Readonly<Record<string, string>> = {
  h1: '# ',
  h2: '## ',
  h3: '### ',
  h4: '#### ',
  li: '- ',
  dt: '- ',
  dd: ': ',
  td: ' | ',
  th: ' | ',
};
/** Matches lines without text, such as list items that contain only a form. */
const EMPTY = /^[-|#: ]*$/;

/**
 * A link is followed by its address. A field shows its type, name and value, and an option its value. `|` separates the
 * cells of a table.
 */
export function outlineOf(html: string, part: 'main' | 'body' = 'main'): string {
  const [, title = ''] = /<title>(.*?)<\/title>/s.exec(html) ?? [];
  const [inner = html] = new RegExp(`<${part}\\b.*</${part}>`, 's').exec(html) ?? [];
  const withoutDrawings = inner.replaceAll(/<svg\b.*?<\/svg>/gs, ' ');
  const lines: string[] = [];
  const addresses: string[] = [];
  let line = '';
  const endLine = () => {
    const text = line.replaceAll(/\s+/g, ' ').trim();
    if (!EMPTY.test(text)) lines.push(text);
    line = '';
  };
  for (const [whole, close, tag, head = ''] of withoutDrawings.matchAll(/<(\/?)([a-z0-9]+)\b([^>]*)>|[^<]+/g)) {
    if (tag === undefined) {
      line += decode(whole);
    } else if (close === '/') {
      if (tag === 'a') line += ` <${addresses.pop()}>`;
      if (tag === 'button') line += ']';
      if (BLOCKS.has(tag) && tag !== 'dt') endLine();
    } else {
      const attributes = attributesOf(head);
      if (BLOCKS.has(tag)) endLine();
      line += (PREFIXES[tag] ?? '') + controlOf(tag, attributes);
      if (tag === 'a') addresses.push(attributes.get('href') ?? '');
      if (tag === 'form') endLine();
    }
  }
  endLine();
  return [decode(title), ...lines, ''].join('\n');
}

function controlOf(tag: string, attributes: ReadonlyMap<string, string>): string {
  const { name = '', type = '', value = '', method = 'get', action = '' } = Object.fromEntries(attributes);
  const named = name === '' ? value : `${name}=${value}`;
  const mark = attributes.has('checked') || attributes.has('selected') ? '*' : '';
  if (tag === 'form') return `form: ${method} ${action}`;
  if (tag === 'button') return ` [${name === '' ? '' : `${named}: `}`;
  if (tag === 'option') return ` · ${mark}${value} `;
  if (tag === 'input') return name.startsWith('_') ? '' : ` [${mark}${type} ${named}] `;
  return ['select', 'textarea', 'meter', 'progress'].includes(tag) ? ` [${tag} ${named}] ` : '';
}
