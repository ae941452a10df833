/** The table of results with simulated providers, in `docs/providers.md`. */
import { PRESETS } from '../../src/gatehouse/connected-apps/presets.ts';

export interface Result {
  /** The id of the preset. */
  id: string;
  connect: string;
  expiry: string;
  /** Each distinct refusal once. */
  refusal: string[];
  reconnect: string;
  disconnect: string;
  signIn: string;
}

const HEADINGS = [
  'provider',
  'tried with',
  'connect',
  'access token expires',
  'refresh is refused',
  'reconnect',
  'disconnect',
  'sign in',
  'facts not confirmed',
];

const BEGIN = '<!-- Made by test/journeys/providers.long.test.ts -->\n';
const END = '<!-- End -->\n';

/** Replaces the results in the document. */
export function insertResults(document: string, results: readonly Result[]): string {
  const [textBefore, textFromTable = ''] = document.split(BEGIN);
  const [, textAfter] = textFromTable.split(END);
  if (textAfter === undefined) throw new Error('The document has no place for the results.');
  const table = [HEADINGS, HEADINGS.map(() => '---'), ...results.map(cells)].map(tableRow).join('\n');
  return `${textBefore}${BEGIN}${table}\n${END}${textAfter}`;
}

const tableRow = (texts: readonly string[]) => `| ${texts.join(' | ')} |`;

function cells({ id, connect, expiry, refusal, reconnect, disconnect, signIn }: Result): string[] {
  const { name = id, triedWith = '', facts = [] } = PRESETS.find((preset) => preset.id === id) ?? {};
  return [
    `[${name}](provider-presets.md#${anchorOf(name)})`,
    triedWith,
    connect,
    expiry,
    refusal.join(' or ') || '–',
    reconnect,
    disconnect,
    signIn,
    `${facts.filter(({ confirmed }) => confirmed === false).length}`,
  ];
}

/** Returns the anchor that GitHub creates for a heading. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^a-z0-9 -]/g, '')
    .replaceAll(' ', '-');
}
