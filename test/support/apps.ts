/** Connected apps for grants that a test stores itself. */
import { readFileSync } from 'node:fs';
import type { ConnectedApp } from '../../src/shared/provider/connected-app.ts';

/** The fields of an app that its grants need. */
export const PLATFORM = { id: 'platform', issuer: 'https://idp.test', clientId: 'c1' } as ConnectedApp;

/** Returns an app of the file that these settings name. */
export function appOfFile({ CONNECTED_APPS_FILE = '' }: Record<string, string>, id = 'platform'): ConnectedApp {
  const apps: ConnectedApp[] = JSON.parse(readFileSync(CONNECTED_APPS_FILE, 'utf8'));
  const app = apps.find((candidate) => candidate.id === id);
  if (!app) throw new Error(`The file has no app ${id}.`);
  return app;
}
