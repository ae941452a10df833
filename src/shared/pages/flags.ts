/** Finds the SVG of a flag in world-countries (ODbL): not every system has glyphs for flag emoji. */
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Countries } from 'world-countries';

const require = createRequire(import.meta.url);
const PATH = /^\/flags\/([a-z]{2})\.svg$/;

/** The file behind `/flags/dk.svg`, a country by its alpha-2 code in lower case; undefined for any other path. */
export function flagFile(path: string): string | undefined {
  const [, alpha2] = PATH.exec(path) ?? [];
  if (alpha2 === undefined) return undefined;
  const countries: Countries = require('world-countries');
  const country = countries.find(({ cca2 }) => cca2.toLowerCase() === alpha2);
  return country && join(dirname(require.resolve('world-countries')), 'data', `${country.cca3.toLowerCase()}.svg`);
}
