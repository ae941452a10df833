/** Finds lines that no process may print, whatever is done to it. */

const ALARMING = /"level":60|unhandled|uncaught|Cannot read prop|is not a function|"code":"internal"|MaxListeners/i;
/** The Redis client listens once for each command that a replica refused, on a connection that it is closing already: it ends with that. */
const HARMLESS = /MaxListeners[\s\S]*Connector\.disconnect/;
/** The first ones tell the most, and what stands below each tells where it comes from. */
const MOST = 3;
const LINES_OF_EACH = 12;

/** @param output of a process that traces its warnings */
export function alarmsIn(output: string): string[] {
  const lines = output.split('\n');
  return lines
    .flatMap((line, at) => (ALARMING.test(line) ? [lines.slice(at, at + LINES_OF_EACH).join('\n')] : []))
    .filter((text) => !HARMLESS.test(text))
    .slice(0, MOST);
}
