/** The command `sessions end --all`: signs every user out, for an emergency. */
import type { Command } from 'commander';
import { StartRefused } from '../../shared/errors.ts';
import { printResult, type Terminal, withProgress } from './terminal.ts';

const HELP = `
Open pages stop working immediately, in every process, even while Gatehouse runs. Users can sign in again; a sign-in that is under
way can still create a session. Connections, relay tokens and admin tokens do not change. To lock out one user, disable that user in
the administration. To make every stolen cookie useless, also change SESSION_SECRETS.`;

export function define(sessions: Command, terminal: Terminal): void {
  sessions
    .command('end')
    .description('end sessions immediately, while Gatehouse runs')
    .requiredOption('--all', 'every session of every user')
    .option('--json', 'print {"ended"} (use npm run -s)')
    .addHelpText('after', HELP)
    .action(async ({ json = false }: { json?: boolean }) => {
      const ended = await endAllSessions(terminal);
      const text = `Ended ${ended.toLocaleString('en-GB')} ${ended === 1 ? 'session' : 'sessions'}. Users can sign in again.`;
      printResult(terminal, { json, data: { ended }, text });
    });
}

async function endAllSessions(terminal: Terminal): Promise<number> {
  const { loadSessionConfig } = await import('../../shared/config/config.ts');
  const { createSessionStore } = await import('../../shared/sessions/sessions.ts');
  const { withStorage } = await import('./open-storage.ts');
  const { auditedByOperator } = await import('./operator-trail.ts');
  const { values: lifetimes, faults } = loadSessionConfig(terminal.source);
  if (faults.length > 0) throw new StartRefused(faults);
  return withStorage(terminal.source, async ({ store, sealedJson }) => {
    const { ofUsers } = createSessionStore({ store, sealedJson, lifetimes, clock: Date.now });
    const listed = await ofUsers.count();
    return auditedByOperator(store, [{ event: 'session.all_ended', facts: { listed } }], () =>
      withProgress(terminal, 'Ending', listed, (advance) => ofUsers.endEverySession(advance)),
    );
  });
}
