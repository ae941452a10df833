/** Compares the callback URL that is sent with the app's list, so that no administrator has to compare them by eye. */

/** @returns the callback URL, with the most similar entry of the list where it is not in it, and where they differ */
export function describeRedirectUri(sent: string, callbackUrls: readonly string[]): string {
  if (callbackUrls.includes(sent)) return `${sent} is in the app’s list, character by character`;
  const [nearest] = callbackUrls.toSorted((left, right) => sameLength(sent, right) - sameLength(sent, left));
  if (nearest === undefined) return `${sent} is sent, and the app’s list is empty`;
  return `${sent} is not in the app’s list; nearest is ${nearest}: ${differenceOf(sent, nearest)}`;
}

function differenceOf(sent: string, registered: string): string {
  const place = sameLength(sent, registered);
  const [left, right] = [sent, registered].map((url) => [...url][place]);
  const shown = (character: string | undefined) => (character === undefined ? 'its end' : `"${character}"`);
  return `character ${place + 1} is ${shown(left)} where the registered one has ${shown(right)}`;
}

/** How many characters are the same from the start. */
function sameLength(left: string, right: string): number {
  const characters = [...right];
  const place = [...left].findIndex((character, index) => character !== characters[index]);
  return place === -1 ? [...left].length : place;
}
