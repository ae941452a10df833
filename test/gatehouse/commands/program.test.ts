/** The list of commands, which is shown without loading them, matches the help of each command. */
import { expect, test } from 'vitest';
import { createProgram } from '../../../src/gatehouse/commands/program.ts';

const nowhere = { source: { env: {}, readFile: () => '' }, out: process.stdout, err: process.stderr };
const terminal = { ...nowhere, setExitStatus: () => undefined };

test('--help shows the options and arguments that each command has', async () => {
  const withoutLoading = await createProgram(terminal, ['--help']);
  const withAllCommands = await createProgram(terminal);
  expect(withoutLoading.helpInformation()).toBe(withAllCommands.helpInformation());
});

test('loads only the command that the arguments name', async () => {
  const { commands } = await createProgram(terminal, ['help', 'keys']);
  const loadedCommands = commands.filter((command) => command.commands.length > 0 || command.options.length > 0);
  expect(loadedCommands.map((command) => command.name())).toEqual(['keys']);
});
