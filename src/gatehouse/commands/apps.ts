/** The commands `apps check` and `apps apply` for files of connected apps. */
import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { StartRefused } from '../../shared/errors.ts';
import { addApplyCommand } from './apps-apply.ts';
import { printResult, type Terminal } from './terminal.ts';

export function define(apps: Command, terminal: Terminal): void {
  apps
    .command('check <file>')
    .description('check a file for CONNECTED_APPS_FILE without starting anything')
    .option('--json', 'print {"ok", "apps", "faults", "warnings", "presets"} (use npm run -s)')
    .addHelpText(
      'after',
      '\nSecrets are read from the places that the file names. Exits with status 1 if there are faults.',
    )
    .action(async (file: string, { json = false }: { json?: boolean }) => {
      const { apps, faults, warnings, presets } = await checkAppFile(terminal, file);
      const summary = `${file} is valid: ${apps.join(', ') || 'it has no apps'}.`;
      const adviceLines = presets.flatMap(({ app, preset, advice }) =>
        advice.map((words) => `- ${app} looks like ${preset}, whose preset has ${words}`),
      );
      const warningLines = warnings.map((warning) => `Warning: ${warning}`);
      const lines =
        faults.length > 0 ? faults.map((fault) => `- ${fault}`) : [summary, ...warningLines, ...adviceLines];
      const data = { ok: faults.length === 0, apps, faults, warnings, presets };
      printResult(terminal, { json, data, text: lines.join('\n') });
      if (faults.length > 0) terminal.setExitStatus(1);
    });
  addApplyCommand(apps, terminal);
}

interface CheckedFile {
  apps: string[];
  faults: string[];
  warnings: string[];
  /** For each app that matches a preset: the name and the advice of the preset. */
  presets: { app: string; preset: string; advice: string[] }[];
}

/** @throws StartRefused if the file cannot be read */
async function checkAppFile(terminal: Terminal, file: string): Promise<CheckedFile> {
  const { loadConfig } = await import('../../shared/config/config.ts');
  const { createAddressPolicy } = await import('../../shared/outbound/address-policy.ts');
  const { callbackWarnings } = await import('../../shared/provider/connected-app.ts');
  const { parseConnectedApps } = await import('../connected-apps/app-file.ts');
  const { presetAdvice } = await import('../connected-apps/check-preset.ts');
  const { signInClaimWarnings } = await import('../connected-apps/registration-rules.ts');
  const { recognisePreset } = await import('../connected-apps/presets.ts');
  const { values } = loadConfig(terminal.source);
  const { apps, faults } = parseConnectedApps(readText(file), terminal.source, {
    policy: createAddressPolicy(values.internalHosts),
    publicHref: values.publicUrl?.href,
  });
  return {
    apps: apps.map(({ id }) => id),
    faults: faults.map((fault) => fault.replaceAll('CONNECTED_APPS_FILE', file)),
    warnings: [
      ...(values.publicUrl ? callbackWarnings(apps, values.publicUrl.href) : []),
      ...signInClaimWarnings(apps),
    ],
    presets: apps.flatMap((app) => {
      const recognised = recognisePreset(app);
      return recognised ? [{ app: app.id, preset: recognised.preset.name, advice: presetAdvice(recognised) }] : [];
    }),
  };
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    throw new StartRefused([`${file} cannot be read: check the path and its permissions.`]);
  }
}
