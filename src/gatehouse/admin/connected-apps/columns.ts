/** Columns of the list of connected apps. */
import type { Columns } from '../columns.ts';
import type { SecretAge } from '../credential.ts';
import type { AppView } from './view.ts';

declare module '../columns.ts' {
  interface CellViews {
    '/admin/connected-apps/state': { app: AppRow; brief: true };
    '/admin/connected-apps/last-check': { app: AppRow };
  }
}

export type AppRow = AppView & { secret: SecretAge };

export const APP_COLUMNS: Columns<AppView, AppRow> = [
  {
    name: 'Name',
    width: 'wide',
    csv: ({ name }) => name,
    cell: ({ id, name }) => ({ path: `connected-apps/${id}`, text: name, title: `${name} (${id})` }),
  },
  { name: 'ID', isBelow: true, csv: ({ id }) => id, cell: ({ id }) => ({ text: id }) },
  { name: 'Issuer', isWideOnly: true, csv: ({ issuer }) => issuer, cell: ({ issuer }) => ({ text: issuer }) },
  { name: 'Client ID', csv: ({ clientId }) => clientId },
  { name: 'Used for', width: 'time', cell: (app) => ({ text: usesOf(app).join(', ') || 'Connections' }) },
  { name: 'Usable', csv: ({ unusable }) => unusable === null },
  {
    name: 'State',
    width: 'states',
    cell: (app) => ({ view: '/admin/connected-apps/state', data: { app, brief: true }, isCut: true }),
  },
  {
    name: 'Last check',
    csv: ({ lastCheck }) => lastCheck?.at,
    cell: (app) => ({ view: '/admin/connected-apps/last-check', data: { app }, isCut: true }),
  },
  { name: 'First failure', csv: ({ lastCheck }) => lastCheck?.firstFailure },
  {
    name: 'Changed',
    width: 'time',
    isWideOnly: true,
    label: 'Changed',
    csv: ({ changedAt }) => changedAt,
    cell: ({ source, changedAt }) =>
      source === 'file' ? { words: 'Set in the file', title: 'Defined in CONNECTED_APPS_FILE' } : { time: changedAt },
  },
];

const usesOf = ({ signIn, apiBaseUrl }: AppRow) => [...(signIn ? ['Sign-in'] : []), ...(apiBaseUrl ? ['Threads'] : [])];
