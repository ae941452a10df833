/** The list of commands, which is shown without loading them, matches the help of each command. */
import { expect, test } from 'vitest';
import { createProgram } from '../../../src/gatehouse/commands/program.ts';

const nowhere = { source: { env: {}, readFile: () => '' }, out: process.stdout, err: process.stderr };
const terminal = { ...nowhere, setExitStatus: () => undefined };

test('--help shows the options and arguments that each command has', async () => {
  const [listed, loaded] = [await createProgram(terminal, ['--help']), await createProgram(terminal)];
  expect(listed.helpInformation()).toBe(loaded.helpInformation());
});

test('loads only the command that the arguments name', async () => {
  const { commands } = await createProgram(terminal, ['help', 'keys']);
  const loaded = commands.filter((command) => command.commands.length > 0 || command.options.length > 0);
  expect(loaded.map((command) => command.name())).toEqual(['keys']);
});
