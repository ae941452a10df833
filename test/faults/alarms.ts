/** Finds lines that no process may ever print. */

const ALARMING = /"level":60|unhandled|uncaught|Cannot read prop|is not a function|"code":"internal"|MaxListeners/i;
/** The Redis client adds a listener for each command that a replica refused, to a connection that it is closing. */
const HARMLESS = /MaxListeners[\s\S]*Connector\.disconnect/;
/** The first alarms are the most useful, each with the lines below it. */
const MAX_ALARMS = 3;
const LINES_OF_EACH = 12;

/** @param output of a process that traces its warnings */
export function alarmsIn(output: string): string[] {
  const lines = output.split('\n');
  return lines
    .flatMap((line, index) => (ALARMING.test(line) ? [lines.slice(index, index + LINES_OF_EACH).join('\n')] : []))
    .filter((text) => !HARMLESS.test(text))
    .slice(0, MAX_ALARMS);
}
