/** Owns the commands that try connected apps: the doctor, and the check of a file before a server is given it. */
import type { Command } from 'commander';
import { CHECKS } from '../connected-apps/finding.ts';
import type { Checked } from './run-doctor.ts';
import { answer, type Terminal } from './terminal.ts';

export function addDoctorCommands(program: Command, terminal: Terminal): void {
  program
    .command('doctor [app]')
    .description('try a connected app (or all of them) as a sign-in would, and say what is fine and what is not')
    .option('--json', 'print [{"app", "ok", "findings"}] (use npm run -s)')
    .addHelpText('after', '\nNeeds the settings of the server. Exit status 1 where a problem was found.')
    .action(async (id: string | undefined, { json = false }: { json?: boolean }) => {
      const { runDoctor } = await import('./run-doctor.ts');
      const checked = await runDoctor(terminal, id);
      const text = checked.map(inWords).join('\n\n') || 'There is no connected app.';
      answer(terminal, { json, data: checked, text });
      if (checked.some(({ ok }) => !ok)) terminal.setExitStatus(1);
    });

  program
    .command('apps')
    .description('files of connected apps')
    .command('check <file>')
    .description('judge a file for CONNECTED_APPS_FILE without starting anything')
    .option('--json', 'print {"ok", "apps", "faults"} (use npm run -s)')
    .addHelpText('after', '\nSecrets are looked up where the file says they are. Exit status 1 where there are faults.')
    .action(async (file: string, { json = false }: { json?: boolean }) => {
      const { checkAppFile } = await import('./run-doctor.ts');
      const { apps, faults } = checkAppFile(terminal, file);
      const found = `${file} is in order: ${apps.join(', ') || 'it holds no app'}.`;
      const data = { ok: faults.length === 0, apps, faults };
      answer(terminal, { json, data, text: faults.map((fault) => `- ${fault}`).join('\n') || found });
      if (faults.length > 0) terminal.setExitStatus(1);
    });
}

const WORDS = { fine: 'fine       ', problem: 'PROBLEM    ', cannot_tell: 'cannot tell' } as const;

function inWords({ app, findings }: Checked): string {
  const lines = findings.map(({ check, result, detail, advice }) => {
    const line = `  ${WORDS[result]}  ${CHECKS[check]}: ${detail}`;
    return advice === undefined ? line : `${line}\n               -> ${advice}`;
  });
  return [`${app}:`, ...lines].join('\n');
}
