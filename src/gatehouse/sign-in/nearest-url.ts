/** Finds the registered URL that is most similar to another one, which spares administrators a comparison by eye. */

/** Names the most similar URL of a list, which is not empty, and the first difference. */
export function nearestUrl(sent: string, urls: readonly string[]): string {
  const similarity = (url: string) => commonPrefixLength(withoutScheme(sent), withoutScheme(url));
  const [nearest = ''] = urls.toSorted((left, right) => similarity(right) - similarity(left));
  return `nearest is ${nearest}: ${differenceOf(sent, nearest)}`;
}

/** Letters that people often write in another case, and the scheme, do not make another URL more similar. */
const withoutScheme = (url: string) => url.toLowerCase().replace(/^https?:\/\/(?:www\.)?/, '');

function differenceOf(sent: string, registered: string): string {
  const index = commonPrefixLength(sent, registered);
  const [left, right] = [sent, registered].map((url) => [...url][index]);
  const shown = (character: string | undefined) => (character === undefined ? 'its end' : `"${character}"`);
  return `character ${index + 1} is ${shown(left)} where the registered one has ${shown(right)}`;
}

/** Returns the length in whole characters, not in UTF-16 units. */
function commonPrefixLength(left: string, right: string): number {
  const characters = [...right];
  const difference = [...left].findIndex((character, index) => character !== characters[index]);
  return difference === -1 ? [...left].length : difference;
}
