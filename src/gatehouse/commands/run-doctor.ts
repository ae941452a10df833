/**
 * Implements `doctor` and `apps check`. Loaded only when one of them runs, because it needs a large part of the server.
 */
import { readFileSync } from 'node:fs';
import { type Config, loadConfig } from '../../shared/config/config.ts';
import { AppError, StartRefused } from '../../shared/errors.ts';
import { createAddressPolicy } from '../../shared/outbound/address-policy.ts';
import { createOutbound } from '../../shared/outbound/outbound.ts';
import { type ConnectedApp, callbackWarnings } from '../../shared/provider/connected-app.ts';
import { parseConnectedApps } from '../connected-apps/app-file.ts';
import { presetAdvice } from '../connected-apps/check-preset.ts';
import { type ConnectedApps, createConnectedApps } from '../connected-apps/connected-apps.ts';
import type { Finding } from '../connected-apps/finding.ts';
import { recognisePreset } from '../connected-apps/presets.ts';
import { withStorage } from './open-storage.ts';
import type { Terminal } from './terminal.ts';

export interface Checked {
  app: string;
  ok: boolean;
  findings: Finding[];
}

/** @throws StartRefused for wrong settings, AppError `not_found` for an unknown app */
export async function runDoctor(terminal: Terminal, id: string | undefined): Promise<Checked[]> {
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

export function readFileApps(
  { source }: Pick<Terminal, 'source'>,
  { connectedAppsFile: file }: Config,
): readonly ConnectedApp[] {
  if (!file) return [];
  const { apps, faults } = parseConnectedApps(source.readFile(file), source);
  if (faults.length > 0) throw new StartRefused(faults);
  return apps;
}

async function checkApps({ apps, check }: ConnectedApps, id: string | undefined): Promise<Checked[]> {
  const chosen = apps.list().filter((app) => id === undefined || app.id === id);
  if (id !== undefined && chosen.length === 0) throw new AppError('not_found', { detail: unknownApp(id, apps.list()) });
  return Promise.all(
    chosen.map(async (app) => {
      const findings = await check.run(app);
      return { app: app.id, ok: findings.every(({ result }) => result !== 'problem'), findings };
    }),
  );
}

function unknownApp(id: string, apps: readonly ConnectedApp[]): string {
  if (apps.length === 0)
    return 'There is no connected app: set CONNECTED_APPS_FILE, or register one in the administration.';
  return `There is no connected app with the id "${id}". The ids are: ${apps.map((app) => app.id).join(', ')}.`;
}

interface CheckedFile {
  apps: string[];
  faults: string[];
  warnings: string[];
  /** For each app of a known provider: the name of its preset, and what that advises. */
  presets: { app: string; preset: string; advice: string[] }[];
}

/** @throws StartRefused if the file cannot be read */
export function checkAppFile(terminal: Terminal, file: string): CheckedFile {
  const { values } = loadConfig(terminal.source);
  const { apps, faults } = parseConnectedApps(
    readText(file),
    terminal.source,
    createAddressPolicy(values.internalHosts),
  );
  return {
    apps: apps.map(({ id }) => id),
    faults: faults.map((fault) => fault.replaceAll('CONNECTED_APPS_FILE', file)),
    warnings: values.publicUrl ? callbackWarnings(apps, values.publicUrl.href) : [],
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
