/** The command tree of `npm run gatehouse -- COMMAND`. Loads only the command that is named. */
import { Command } from 'commander';
import { withoutArguments } from '../../shared/errors.ts';
import { VERSION } from '../../shared/version.ts';
import type { Terminal } from './terminal.ts';

interface TopCommand {
  /** The command as shown in the list of commands: its name, `[options]` if it has any, and its arguments. */
  usage: string;
  description: string;
  load: () => Promise<CommandFile>;
}

interface CommandFile {
  /**
   * Adds arguments, options, an action, and subcommands. An action imports its dependencies when it runs, so that
   * `--help` stays fast.
   */
  define(command: Command, terminal: Terminal): void;
}

/** In the order of `--help`. */
const COMMANDS: readonly TopCommand[] = [
  {
    usage: 'status [options]',
    description: 'show version, storage, readiness, processes, keys, connections by health and the last backup',
    load: () => import('./status.ts'),
  },
  { usage: 'config', description: 'check the settings of the server', load: () => import('./config.ts') },
  { usage: 'keys', description: 'create, list, rotate and forget encryption keys', load: () => import('./keys.ts') },
  { usage: 'audit', description: 'export the audit trail', load: () => import('./audit.ts') },
  {
    usage: 'admin-tokens',
    description: 'create, list and revoke tokens for the admin HTTP API',
    load: () => import('./admin-tokens.ts'),
  },
  { usage: 'sessions', description: 'end the sessions of users', load: () => import('./sessions.ts') },
  { usage: 'bin', description: 'import BIN data sets, and add BIN facts to a file', load: () => import('./bin.ts') },
  { usage: 'connections', description: 'import connections of users', load: () => import('./connections.ts') },
  {
    usage: 'doctor [options] [app]',
    description: 'check a connected app (or all of them) as a sign-in would use it, and report problems',
    load: () => import('./doctor.ts'),
  },
  { usage: 'apps', description: 'check and apply files of connected apps', load: () => import('./apps.ts') },
  {
    usage: 'backup [options] <file>',
    description: 'write everything that is stored to a file, while Gatehouse runs',
    load: () => import('./backup.ts'),
  },
  {
    usage: 'restore [options] <file>',
    description: 'put a backup into an empty storage, while Gatehouse is stopped',
    load: () => import('./restore.ts'),
  },
  {
    usage: 'migrate [options]',
    description: 'move everything from SQLite to Redis or back, while Gatehouse is stopped',
    load: () => import('./migrate.ts'),
  },
];

const nameOf = ({ usage }: TopCommand): string => usage.replace(/ .*/, '');

/**
 * @param args the arguments of the command line. Commands that they do not name are not loaded, and only appear in
 *   the list of commands. Default: the names of all commands
 */
export async function createProgram(
  terminal: Terminal,
  args: readonly string[] = COMMANDS.map(nameOf),
): Promise<Command> {
  const program = new Command('npm run gatehouse --')
    .description('Gatehouse on the command line.')
    .version(VERSION)
    .showHelpAfterError()
    // In `backup verify FILE --json` the option belongs to `verify`, although `backup` has one with the same name.
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void terminal.out.write(text),
      writeErr: (text) => void terminal.err.write(text),
      outputError: (text, write) => write(withoutArguments(text)),
    });
  for (const entry of COMMANDS) {
    const isNamed = args.includes(nameOf(entry));
    const command = program.command(isNamed ? nameOf(entry) : entry.usage).description(entry.description);
    if (isNamed) (await entry.load()).define(command, terminal);
  }
  return program;
}
