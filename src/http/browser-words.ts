/** Owns the words for a browser: what it says of itself, reduced to names that are known. */
import Bowser from 'bowser';
import { remembered } from '../remembered.ts';

/** What is longer says nothing more, and costs time to read. */
const MOST_CHARACTERS = 512;

const BROWSERS: ReadonlySet<string> = new Set(Object.values(Bowser.BROWSER_MAP));
const SYSTEMS: ReadonlySet<string> = new Set(Object.values(Bowser.OS_MAP));

/** The words for what was said before: many browsers say the same, and each one says it each time. */
const told = remembered<{ words: string | undefined }>(1_000);

/** Such as "Firefox on Windows"; undefined where neither is known. Nothing of the text itself is repeated. */
export function browserWords(userAgent: string | undefined): string | undefined {
  const text = userAgent?.slice(0, MOST_CHARACTERS);
  if (!text) return undefined;
  const before = told.get(text);
  if (before) return before.words;
  const words = read(text);
  told.set(text, { words });
  return words;
}

function read(text: string): string | undefined {
  const { browser, os } = Bowser.parse(text);
  const name = known(browser.name, BROWSERS);
  const system = known(os.name, SYSTEMS);
  if (name && system) return `${name} on ${system}`;
  return name ?? (system && `A browser on ${system}`);
}

function known(name: string | undefined, names: ReadonlySet<string>): string | undefined {
  return name !== undefined && names.has(name) ? name : undefined;
}
