/** The command `sessions end --all`: signs every user out, for an emergency. */
import type { Command } from 'commander';
import { loadSessionConfig } from '../config/config.ts';
import { StartRefused } from '../errors.ts';
import { createSessionStore } from '../sessions/sessions.ts';
import { createSealedJson } from '../storage/sealed-json.ts';
import { withExistingStorage } from './open-storage.ts';
import { auditOperator } from './operator-trail.ts';
import { printResult, type Terminal, withProgress } from './terminal.ts';

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
      const ended = await endAllSessions(terminal);
      const text = `Ended ${ended.toLocaleString('en-GB')} ${ended === 1 ? 'session' : 'sessions'}. Users can sign in again.`;
      printResult(terminal, { json, data: { ended }, text });
    });
}

async function endAllSessions(terminal: Terminal): Promise<number> {
  const { values: lifetimes, faults } = loadSessionConfig(terminal.source);
  if (faults.length > 0) throw new StartRefused(faults);
  return withExistingStorage(terminal.source, async ({ store, sealer }) => {
    const sealedJson = createSealedJson(sealer);
    const { ofUsers } = createSessionStore({ store, sealedJson, lifetimes, clock: Date.now });
    await auditOperator(store, { event: 'session.everyone_ended', facts: { listed: await ofUsers.count() } });
    return withProgress(terminal, 'Ending', await ofUsers.count(), (advance) => ofUsers.endOfEveryone(advance));
  });
}
