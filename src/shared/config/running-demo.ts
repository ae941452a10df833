/** Finds the settings of a demo that runs in this folder, for commands without settings of their own. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import type { ConfigSource } from './setting.ts';

const FOLDER = 'data';
const FILE = 'settings.env';
/** The entry of the file that holds the process id of the demo. */
export const DEMO_PID = 'DEMO_PID';

/** Returns the folder of the demo whose sandbox has this port. The demo deletes it when it stops. */
export const demoFolder = (sandboxPort: string): string => join(FOLDER, `demo-${sandboxPort}`);
/** Returns the file with every setting of the demo's Gatehouse, except its ports and log level. */
export const demoSettingsFile = (sandboxPort: string): string => join(demoFolder(sandboxPort), FILE);

/**
 * Returns the settings of the running demo. Returns undefined in production, and if the environment has one of these
 * settings, so that they are never mixed with those of a real Gatehouse. `SANDBOX_PORT` selects one of several demos.
 */
export function settingsOfDemo(env: ConfigSource['env']): { env: ConfigSource['env']; file: string } | undefined {
  if (env.NODE_ENV === 'production') return undefined;
  const folders = existsSync(FOLDER) ? readdirSync(FOLDER) : [];
  const ports = folders.flatMap((name) => /^demo-(\d+)$/.exec(name)?.[1] ?? []);
  const demos = (env.SANDBOX_PORT ? [env.SANDBOX_PORT] : ports)
    .map(demoSettingsFile)
    .flatMap(settingsIn)
    .filter((demo) => isRunning(Number(demo.env[DEMO_PID])));
  const [demo] = demos;
  if (demo === undefined || demos.length > 1) return undefined;
  const isSet = (name: string) => env[name] !== undefined || env[`${name}_FILE`] !== undefined;
  return Object.keys(demo.env).some(isSet) ? undefined : demo;
}

/** Returns an empty list if there is no file: the demo has not written it yet, or has stopped. */
function settingsIn(file: string): { file: string; env: ConfigSource['env'] }[] {
  try {
    return [{ file, env: parseEnv(readFileSync(file, 'utf8')) }];
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

/** Checks the process, because a demo that was killed leaves its folder behind. */
function isRunning(pid: number): boolean {
  try {
    return pid > 0 && process.kill(pid, 0);
  } catch {
    return false;
  }
}
