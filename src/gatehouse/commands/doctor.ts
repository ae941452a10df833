/** The commands `doctor`, which checks connected apps, and `apps check`, which checks a file of them; `apps apply` stands beside it. */
import type { Command } from 'commander';
import { CHECKS } from '../connected-apps/finding.ts';
import { addApplyCommand } from './apps-apply.ts';
import type { Checked } from './run-doctor.ts';
import { printResult, type Terminal } from './terminal.ts';

export function addDoctorCommands(program: Command, terminal: Terminal): void {
  program
    .command('doctor [app]')
    .description('check a connected app (or all of them) as a sign-in would use it, and report problems')
    .option('--json', 'print [{"app", "ok", "findings"}] (use npm run -s)')
    .addHelpText('after', '\nNeeds the settings of the server. Exits with status 1 if there is a problem.')
    .action(async (id: string | undefined, { json = false }: { json?: boolean }) => {
      const { runDoctor } = await import('./run-doctor.ts');
      const checked = await runDoctor(terminal, id);
      const text = checked.map(inWords).join('\n\n') || 'There is no connected app.';
      printResult(terminal, { json, data: checked, text });
      if (checked.some(({ ok }) => !ok)) terminal.setExitStatus(1);
    });

  const apps = program.command('apps').description('files of connected apps');
  apps
    .command('check <file>')
    .description('check a file for CONNECTED_APPS_FILE without starting anything')
    .option('--json', 'print {"ok", "apps", "faults", "warnings", "presets"} (use npm run -s)')
    .addHelpText('after', '\nSecrets are read from where the file says. Exits with status 1 if there are faults.')
    .action(async (file: string, { json = false }: { json?: boolean }) => {
      const { checkAppFile } = await import('./run-doctor.ts');
      const { apps, faults, warnings, presets } = checkAppFile(terminal, file);
      const summary = `${file} is valid: ${apps.join(', ') || 'it holds no app'}.`;
      const advised = presets.flatMap(({ app, preset, advice }) =>
        advice.map((words) => `- ${app} looks like ${preset}, whose preset has ${words}`),
      );
      const warned = warnings.map((warning) => `Warning: ${warning}`);
      const lines = faults.length > 0 ? faults.map((fault) => `- ${fault}`) : [summary, ...warned, ...advised];
      const data = { ok: faults.length === 0, apps, faults, warnings, presets };
      printResult(terminal, { json, data, text: lines.join('\n') });
      if (faults.length > 0) terminal.setExitStatus(1);
    });
  addApplyCommand(apps, terminal);
}

const WORDS = { fine: 'fine       ', problem: 'PROBLEM    ', cannot_tell: 'cannot tell' } as const;

function inWords({ app, findings }: Checked): string {
  const lines = findings.map(({ check, result, detail, advice }) => {
    const line = `  ${WORDS[result]}  ${CHECKS[check]}: ${detail}`;
    return advice === undefined ? line : `${line}\n               -> ${advice}`;
  });
  return [`${app}:`, ...lines].join('\n');
}
