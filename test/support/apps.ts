/** Connected apps whose registration a grant made by hand can have. */
import { readFileSync } from 'node:fs';
import type { ConnectedApp } from '../../src/shared/provider/connected-app.ts';

/** As much of an app as its grants need. */
export const PLATFORM = { id: 'platform', issuer: 'https://idp.test', clientId: 'c1' } as ConnectedApp;

/** From the file that these settings name. */
export function appOfFile({ CONNECTED_APPS_FILE = '' }: Record<string, string>, id = 'platform'): ConnectedApp {
  const apps: ConnectedApp[] = JSON.parse(readFileSync(CONNECTED_APPS_FILE, 'utf8'));
  const app = apps.find((one) => one.id === id);
  if (!app) throw new Error(`The file has no app ${id}.`);
  return app;
}
