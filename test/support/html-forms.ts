/** Reads forms from plain, well-formed pages for the browserless user agent. */

export interface Form {
  action: string;
  method: string;
  /** The fields that an unchanged form sends: hidden and prefilled inputs, checked boxes, chosen options. */
  fields: [string, string][];
  /** The names of all fields, whether sent or not. */
  names: string[];
  buttons: { text: string; name: string; value: string }[];
}

export function parseForms(html: string): Form[] {
  return [...html.matchAll(/<form\b([^>]*)>(.*?)<\/form>/gis)].map(([, head = '', inner = '']) => {
    const attributes = attributesOf(head);
    const id = attributes.get('id');
    // A control may be outside its form and refer to it by id.
    const outside = id === undefined ? '' : controlsReferringTo(html, id);
    return {
      action: attributes.get('action') ?? '',
      method: (attributes.get('method') ?? 'get').toUpperCase(),
      ...controlsOf(inner + outside),
    };
  });
}

function controlsOf(html: string): Pick<Form, 'fields' | 'names' | 'buttons'> {
  const fields: [string, string][] = [];
  const names: string[] = [];
  const buttons: Form['buttons'] = [];
  const add = (name: string, value: string, sent: boolean) => {
    if (name === '') return;
    names.push(name);
    if (sent) fields.push([name, value]);
  };
  const pattern = /<input\b([^>]*)>|<(button|textarea|select)\b([^>]*)>(.*?)<\/\2>/gis;
  for (const [, input, tag, head = '', inner = ''] of html.matchAll(pattern)) {
    const attributes = attributesOf(input ?? head);
    const name = attributes.get('name') ?? '';
    const value = attributes.get('value') ?? '';
    const type = (attributes.get('type') ?? '').toLowerCase();
    if (tag?.toLowerCase() === 'button' || type === 'submit') {
      if (type !== 'button' && type !== 'reset') buttons.push({ text: tag ? textOf(inner) : value, name, value });
    } else if (tag?.toLowerCase() === 'textarea') add(name, decode(inner), true);
    else if (tag?.toLowerCase() === 'select') add(name, chosenOf(inner), true);
    else if (type === 'checkbox' || type === 'radio') {
      add(name, attributes.has('value') ? value : 'on', attributes.has('checked'));
    } else add(name, value, true);
  }
  return { fields, names, buttons };
}

function controlsReferringTo(html: string, id: string): string {
  const controls = html.matchAll(/<input\b([^>]*)>|<(button|textarea|select)\b([^>]*)>.*?<\/\2>/gis);
  return [...controls]
    .filter(([, input, , head = '']) => attributesOf(input ?? head).get('form') === id)
    .map(([whole]) => whole)
    .join('');
}

function chosenOf(options: string): string {
  const choices = [...options.matchAll(/<option\b([^>]*)>([^<]*)/gi)].map(([, head = '', text = '']) => ({
    attributes: attributesOf(head),
    text: textOf(text),
  }));
  const chosen = choices.find(({ attributes }) => attributes.has('selected')) ?? choices[0];
  return chosen?.attributes.get('value') ?? chosen?.text ?? '';
}

export function attributesOf(head: string): Map<string, string> {
  const matches = head.matchAll(/([^\s=/>"']+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?/g);
  const attributes = new Map<string, string>();
  for (const [, name = '', doubleQuoted, singleQuoted, unquoted] of matches) {
    attributes.set(name.toLowerCase(), decode(doubleQuoted ?? singleQuoted ?? unquoted ?? ''));
  }
  return attributes;
}

function textOf(html: string): string {
  return decode(html.replaceAll(/<[^>]*>/g, ' '))
    .replaceAll(/\s+/g, ' ')
    .trim();
}

export function decode(text: string): string {
  const named: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: ' ' };
  return text.replaceAll(/&(?:#x([0-9a-f]+)|#(\d+)|([a-z]+));/gi, (whole, hex, decimal, name) => {
    if (hex) return String.fromCodePoint(Number.parseInt(hex, 16));
    if (decimal) return String.fromCodePoint(Number(decimal));
    return named[String(name).toLowerCase()] ?? whole;
  });
}
