/** The command `config check`: checks the settings without starting anything. */
import type { Command } from 'commander';
import type { Config } from '../../shared/config/config.ts';
import { EX_CONFIG, StartRefused } from '../../shared/errors.ts';
import { printResult, type Terminal } from './terminal.ts';

const HELP = `
Checks what a start checks before it opens anything: the settings, CONNECTED_APPS_FILE, BIN_DATASET_FILE and the files of secrets. It
opens no storage and no port: "status" checks the storage. Exits with status 78 if there are faults.`;

export function define(config: Command, terminal: Terminal): void {
  config
    .command('check')
    .description('check the settings and the files that they name, without starting anything')
    .option('--json', 'print {"ok", "faults", "warnings", "storage", "apps"} (use npm run -s)')
    .addHelpText('after', HELP)
    .action(async ({ json = false }: { json?: boolean }) => {
      const { administrators, ...data } = await checkConfig(terminal);
      const { ok, storage, apps, faults, warnings } = data;
      const appsText = `Apps of the file: ${apps.join(', ') || 'none'}.${administrators}`;
      const summary = `The settings are valid. Storage: ${storage}. ${appsText}`;
      const text = [
        ...(ok ? [summary] : faults.map((fault) => `- ${fault}`)),
        ...warnings.map((warning) => `Warning: ${warning}`),
      ].join('\n');
      printResult(terminal, { json, data, text });
      if (!ok) terminal.setExitStatus(EX_CONFIG);
    });
}

async function checkConfig({ source }: Terminal) {
  const { readSettingsAndDataset } = await import('../read-settings.ts');
  const { callbackWarnings } = await import('../../shared/provider/connected-app.ts');
  const { placeholderWarnings } = await import('../connected-apps/app-file.ts');
  const { storageName } = await import('../../shared/storage/name.ts');
  try {
    const { config, fromFile, ...settings } = await readSettingsAndDataset(source);
    const warnings = [
      ...settings.warnings,
      ...callbackWarnings(fromFile, config.publicUrl.href),
      ...placeholderWarnings(fromFile),
    ];
    const apps = fromFile.map(({ id }) => id);
    const administrators = administratorsText(config.admin);
    return { ok: true, faults: [], warnings, storage: storageName(config), apps, administrators };
  } catch (error) {
    if (!(error instanceof StartRefused)) throw error;
    return { ok: false, faults: error.faults, warnings: [], storage: null, apps: [], administrators: '' };
  }
}

function administratorsText({ app, claim, values }: Config['admin']): string {
  return app === undefined ? '' : ` Administrators: users of "${app}" with ${values.join(' or ')} in ${claim}.`;
}
