/** The command tree of `npm run gatehouse -- COMMAND`. */
import { Command } from 'commander';
import { withoutArguments } from '../../shared/errors.ts';
import { VERSION } from '../../shared/version.ts';
import { addAdminTokenCommands } from './admin-token.ts';
import { addAuditCommands } from './audit.ts';
import { addBackupCommand } from './backup.ts';
import { addBinCommands } from './bin.ts';
import { addConfigCommand } from './config.ts';
import { addConnectionsCommand } from './connections.ts';
import { addDoctorCommands } from './doctor.ts';
import { addKeysCommands } from './keys.ts';
import { addMigrateCommand } from './migrate.ts';
import { addRestoreCommand } from './restore.ts';
import { addSessionsCommand } from './sessions.ts';
import { addStatusCommand } from './status.ts';
import type { Terminal } from './terminal.ts';

export function createProgram(terminal: Terminal): Command {
  const program = new Command('npm run gatehouse --')
    .description('Gatehouse on the command line.')
    .version(VERSION)
    .showHelpAfterError()
    // In "backup verify FILE --json" the option is that of verify, although backup has one of that name.
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void terminal.out.write(text),
      writeErr: (text) => void terminal.err.write(text),
      outputError: (text, write) => write(withoutArguments(text)),
    });
  addStatusCommand(program, terminal);
  addConfigCommand(program, terminal);
  addKeysCommands(program, terminal);
  addAuditCommands(program, terminal);
  addAdminTokenCommands(program, terminal);
  addSessionsCommand(program, terminal);
  addBinCommands(program, terminal);
  addConnectionsCommand(program, terminal);
  addDoctorCommands(program, terminal);
  addBackupCommand(program, terminal);
  addRestoreCommand(program, terminal);
  addMigrateCommand(program, terminal);
  return program;
}
