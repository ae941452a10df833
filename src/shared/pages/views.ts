/** Renders pages with Eta. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Eta } from 'eta';
import type { PageData, PageName } from './page-data.ts';
import { createShow, escapeText } from './show.ts';

export interface Views {
  /** The whole HTML document of a page. Everything in `data` is escaped; only `SanitisedHtml` is printed as it is. */
  render<K extends PageName>(name: K, data: PageData[K]): string;
}

export const VIEWS_DIRECTORY = join(import.meta.dirname, '../../..', 'views');

/** @param parts `directory`: absolute path of the templates */
export function createViews(parts: { directory?: string; clock: () => number }): Views {
  const { directory = VIEWS_DIRECTORY, clock } = parts;
  const eta = new Eta({ views: directory, cache: true, autoEscape: true, escapeFunction: escapeText });
  // Read at start, so that a page can be rendered for the first time when no file descriptor is left (F21).
  const texts = readTemplates(directory);
  eta.readFile = (path) => texts.get(path) ?? '';
  const show = createShow(clock);
  return {
    render: (name, data) => eta.render(`/${name}`, { ...data, show }),
  };
}

/** By absolute path. */
function readTemplates(directory: string): Map<string, string> {
  const paths = readdirSync(directory, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.eta'));
  return new Map(paths.map((path) => join(directory, path)).map((path) => [path, readFileSync(path, 'utf8')]));
}
