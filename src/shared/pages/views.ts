/** Renders pages with Eta. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Eta } from 'eta';
import type { PageData, PageName } from './page-data.ts';
import { createShow, escapeText } from './show.ts';

export interface Views {
  /** Returns the HTML document of a page. All values of `data` are escaped except `SanitisedHtml`. */
  render<K extends PageName>(name: K, data: PageData[K]): string;
}

const VIEWS = join(import.meta.dirname, '../../..', 'views');
export const SHARED_VIEWS = join(VIEWS, 'shared');
export const GATEHOUSE_VIEWS = join(VIEWS, 'gatehouse');
export const BIN_SERVICE_VIEWS = join(VIEWS, 'bin-lookup-service');

/** @param parts `directories`: absolute paths of template folders, in addition to those that the programs share */
export function createViews(parts: { directories: readonly string[]; clock: () => number }): Views {
  const { directories, clock } = parts;
  const eta = new Eta({ views: VIEWS, cache: true, autoEscape: true, escapeFunction: escapeText });
  // Templates are read at the start, since no file descriptor may be available later (F21).
  const texts = new Map([...directories, SHARED_VIEWS].flatMap(readTemplates));
  eta.readFile = (path) => texts.get(path) ?? '';
  const show = createShow(clock);
  return {
    render: (name, data) => eta.render(`/${name}`, { ...data, show }),
  };
}

/** Reads templates by the path that Eta derives from their names. */
function readTemplates(directory: string): [path: string, text: string][] {
  const paths = readdirSync(directory, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.eta'));
  return paths.map((path) => [join(VIEWS, path), readFileSync(join(directory, path), 'utf8')]);
}
