/** Reads the apps of CONNECTED_APPS_FILE. */
import type { Config } from '../../shared/config/config.ts';
import { StartRefused } from '../../shared/errors.ts';
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import { parseConnectedApps } from '../connected-apps/app-file.ts';
import type { Terminal } from './terminal.ts';

/** @throws StartRefused for a file with faults */
export function readFileApps(
  { source }: Pick<Terminal, 'source'>,
  { connectedAppsFile: file }: Config,
): readonly ConnectedApp[] {
  if (!file) return [];
  const { apps, faults } = parseConnectedApps(source.readFile(file), source);
  if (faults.length > 0) throw new StartRefused(faults);
  return apps;
}
