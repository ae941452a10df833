/** The command `sessions end --all`: signs every user out, for an emergency. */
import type { Command } from 'commander';
import { printResult, type Terminal } from './terminal.ts';

const HELP = `
Pages that are open in a browser stop working at once, in every process, even while Gatehouse runs. Users can sign in again;
a sign-in that is under way can still end in a new session. Connections, relay tokens and admin tokens stay as they are. To keep one
user out, disable that user in the administration. To make every stolen cookie useless, change SESSION_SECRETS too.`;

export function addSessionsCommand(program: Command, terminal: Terminal): void {
  program
    .command('sessions')
    .description('sessions of users')
    .command('end')
    .description('end sessions at once, while Gatehouse runs')
    .requiredOption('--all', 'every session of every user')
    .option('--json', 'print {"ended"} (use npm run -s)')
    .addHelpText('after', HELP)
    .action(async ({ json = false }: { json?: boolean }) => {
      const { endAllSessions } = await import('./run-sessions.ts');
      const ended = await endAllSessions(terminal);
      const text = `Ended ${ended.toLocaleString('en-GB')} ${ended === 1 ? 'session' : 'sessions'}. Users can sign in again.`;
      printResult(terminal, { json, data: { ended }, text });
    });
}
