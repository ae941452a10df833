/** Implements `sessions end --all`. Loaded only when it runs. */
import { loadSessionConfig } from '../../shared/config/config.ts';
import { StartRefused } from '../../shared/errors.ts';
import { createSessionStore } from '../../shared/sessions/sessions.ts';
import { withStorage } from './open-storage.ts';
import { auditedByOperator } from './operator-trail.ts';
import { type Terminal, withProgress } from './terminal.ts';

export async function endAllSessions(terminal: Terminal): Promise<number> {
  const { values: lifetimes, faults } = loadSessionConfig(terminal.source);
  if (faults.length > 0) throw new StartRefused(faults);
  return withStorage(terminal.source, async ({ store, sealedJson }) => {
    const { ofUsers } = createSessionStore({ store, sealedJson, lifetimes, clock: Date.now });
    const listed = await ofUsers.count();
    return auditedByOperator(store, [{ event: 'session.everyone_ended', facts: { listed } }], () =>
      withProgress(terminal, 'Ending', listed, (advance) => ofUsers.endOfEveryone(advance)),
    );
  });
}
