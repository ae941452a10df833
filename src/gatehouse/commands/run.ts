/** Runs one command line: writes its result or refusal to the terminal and sets the exit status. */
import { CommanderError } from 'commander';
import { AppError, EX_CONFIG, failureText, StartRefused } from '../../shared/errors.ts';
import { fileFault } from '../../shared/file-fault.ts';
import { createProgram } from './program.ts';
import type { Terminal } from './terminal.ts';

export async function runCommandLine(terminal: Terminal, args: readonly string[]): Promise<void> {
  try {
    const program = await createProgram(terminal, args);
    await program.parseAsync(args, { from: 'user' });
  } catch (error) {
    // For help or an unknown option, commander has already written the text.
    if (error instanceof CommanderError) return terminal.setExitStatus(error.exitCode);
    terminal.err.write(`${refusal(error)}\n`);
    terminal.setExitStatus(error instanceof StartRefused ? EX_CONFIG : 1);
  }
}

function refusal(error: unknown): string {
  if (error instanceof StartRefused) {
    // A refusal with a cause does not concern the settings.
    const help = error.cause === undefined ? ['The settings are explained in .env.example.'] : [];
    return ['This cannot be done:', ...error.faults.map((fault) => `- ${fault}`), ...help].join('\n');
  }
  if (error instanceof AppError && error.code === 'storage_unavailable')
    return `This cannot be done: ${error.message}. Try again once the storage responds; completed work is kept.`;
  return `This cannot be done: ${fileFault(error) ?? failureText(error)}`;
}
