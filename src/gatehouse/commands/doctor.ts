/** The command `doctor`: checks connected apps. */
import type { Command } from 'commander';
import { AppError, StartRefused } from '../../shared/errors.ts';
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import type { ConnectedApps } from '../connected-apps/connected-apps.ts';
import { CHECKS, type Finding } from '../connected-apps/finding.ts';
import { printResult, type Terminal } from './terminal.ts';

interface CheckedApp {
  app: string;
  ok: boolean;
  findings: Finding[];
}

export function define(doctor: Command, terminal: Terminal): void {
  doctor
    .argument('[app]')
    .option('--json', 'print [{"app", "ok", "findings"}] (use npm run -s)')
    .addHelpText('after', '\nNeeds the settings of the server. Exits with status 1 if there is a problem.')
    .action(async (id: string | undefined, { json = false }: { json?: boolean }) => {
      const checked = await runDoctor(terminal, id);
      const text = checked.map(textOf).join('\n\n') || 'There is no connected app.';
      printResult(terminal, { json, data: checked, text });
      if (checked.some(({ ok }) => !ok)) terminal.setExitStatus(1);
    });
}

/** @throws StartRefused for wrong settings, AppError `not_found` for an unknown app */
async function runDoctor(terminal: Terminal, id: string | undefined): Promise<CheckedApp[]> {
  const { loadConfig } = await import('../../shared/config/config.ts');
  const { createAddressPolicy } = await import('../../shared/outbound/address-policy.ts');
  const { createOutbound } = await import('../../shared/outbound/outbound.ts');
  const { createConnectedApps } = await import('../connected-apps/connected-apps.ts');
  const { readFileApps } = await import('./file-apps.ts');
  const { withStorage } = await import('./open-storage.ts');
  const { config, faults } = loadConfig(terminal.source);
  if (!config) throw new StartRefused(faults);
  const fromFile = readFileApps(terminal, config);
  const outbound = createOutbound({ policy: createAddressPolicy(config.internalHosts), proxy: config.proxy });
  try {
    return await withStorage(terminal.source, async (storage) => {
      const { href: publicHref } = config.publicUrl;
      const monotonicClock = () => performance.now();
      const times = { clock: Date.now, monotonicClock, random: Math.random };
      const connectedApps = await createConnectedApps({ storage, outbound, fromFile, publicHref, ...times });
      return await checkApps(connectedApps, id).finally(connectedApps.close);
    });
  } finally {
    await outbound.close();
  }
}

async function checkApps({ apps, check }: ConnectedApps, id: string | undefined): Promise<CheckedApp[]> {
  const selected = apps.list().filter((app) => id === undefined || app.id === id);
  if (id !== undefined && selected.length === 0)
    throw new AppError('not_found', { detail: unknownApp(id, apps.list()) });
  return Promise.all(
    selected.map(async (app) => {
      const findings = await check.run(app);
      return { app: app.id, ok: findings.every(({ result }) => result !== 'failed'), findings };
    }),
  );
}

function unknownApp(id: string, apps: readonly ConnectedApp[]): string {
  if (apps.length === 0)
    return 'There is no connected app: set CONNECTED_APPS_FILE, or register one in the administration.';
  return `There is no connected app with the id "${id}". The ids are: ${apps.map((app) => app.id).join(', ')}.`;
}

const WORDS = { passed: 'passed     ', failed: 'FAILED     ', unknown: 'cannot tell' } as const;

function textOf({ app, findings }: CheckedApp): string {
  const lines = findings.map(({ check, result, detail, advice }) => {
    const line = `  ${WORDS[result]}  ${CHECKS[check]}: ${detail}`;
    return advice === undefined ? line : `${line}\n               -> ${advice}`;
  });
  return [`${app}:`, ...lines].join('\n');
}
