/** The command tree of `npm run gatehouse -- COMMAND`. */
import { Command } from 'commander';
import { addAdminTokenCommands } from './admin-token.ts';
import { addAuditCommands } from './audit.ts';
import { addBackupCommand } from './backup.ts';
import { addBinCommands } from './bin.ts';
import { addConnectionsCommand } from './connections.ts';
import { addDoctorCommands } from './doctor.ts';
import { addKeysCommands } from './keys.ts';
import { addMigrateCommand } from './migrate.ts';
import { addRestoreCommand } from './restore.ts';
import type { Terminal } from './terminal.ts';

export function createProgram(terminal: Terminal): Command {
  const program = new Command('npm run gatehouse --')
    .description('Gatehouse on the command line.')
    .showHelpAfterError()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void terminal.out.write(text),
      writeErr: (text) => void terminal.err.write(text),
    });
  addKeysCommands(program, terminal);
  addAuditCommands(program, terminal);
  addAdminTokenCommands(program, terminal);
  addBinCommands(program, terminal);
  addConnectionsCommand(program, terminal);
  addDoctorCommands(program, terminal);
  addBackupCommand(program, terminal);
  addRestoreCommand(program, terminal);
  addMigrateCommand(program, terminal);
  return program;
}
