/** Describes a browser by its User-Agent, with names from fixed lists only. */
import Bowser from 'bowser';
import { remembered } from '../remembered.ts';

/** Longer headers are cut: the names come first, and the cost of parsing grows with the length. */
const MAX_CHARACTERS = 512;

const BROWSERS: ReadonlySet<string> = new Set(Object.values(Bowser.BROWSER_MAP));
const SYSTEMS: ReadonlySet<string> = new Set(Object.values(Bowser.OS_MAP));

/** Parsing is slow, and requests repeat a few texts. */
const descriptions = remembered<{ description: string | undefined }>(1_000);

/**
 * Returns a description such as "Firefox on Windows"; undefined if neither name is known. The description never holds
 * text of the header itself.
 */
export function describeBrowser(userAgent: string | undefined): string | undefined {
  const text = userAgent?.slice(0, MAX_CHARACTERS);
  if (!text) return undefined;
  const cached = descriptions.get(text);
  if (cached) return cached.description;
  const description = describe(text);
  descriptions.set(text, { description });
  return description;
}

function describe(text: string): string | undefined {
  const { browser, os } = Bowser.parse(text);
  const name = nameIn(BROWSERS, browser.name);
  const system = nameIn(SYSTEMS, os.name);
  if (name && system) return `${name} on ${system}`;
  return name ?? (system && `A browser on ${system}`);
}

function nameIn(names: ReadonlySet<string>, name: string | undefined): string | undefined {
  return name !== undefined && names.has(name) ? name : undefined;
}
