/** The menu of the administration. */
import type { Menu } from './page.ts';

/**
 * The sections of the menu, each with its tabs. `path` is below `/admin`. A view names its tab by the path, as
 * `menuPath`.
 */
export const MENU: Menu = [
  { label: 'Overview', icon: 'overview', tabs: [{ path: '', label: 'Overview' }] },
  {
    label: 'Users',
    icon: 'users',
    tabs: [
      { path: 'users', label: 'Users' },
      { path: 'sessions', label: 'Sessions' },
    ],
  },
  {
    label: 'Apps',
    icon: 'apps',
    tabs: [
      { path: 'connected-apps', label: 'Connected apps' },
      { path: 'connections', label: 'Connections' },
      { path: 'connect-links', label: 'Connect links' },
      { path: 'bin', label: 'BIN data' },
    ],
  },
  {
    label: 'Services',
    icon: 'services',
    tabs: [
      { path: 'relay-tokens', label: 'Relay tokens' },
      { path: 'service-accounts', label: 'Service accounts' },
      { path: 'webhooks', label: 'Webhooks' },
      { path: 'policy', label: 'Test a call' },
    ],
  },
  {
    label: 'Activity',
    icon: 'activity',
    tabs: [
      { path: 'sign-ins', label: 'Sign-ins' },
      { path: 'audit', label: 'Audit' },
    ],
  },
  {
    label: 'Settings',
    icon: 'settings',
    tabs: [
      { path: 'keys', label: 'Keys' },
      { path: 'admin-tokens', label: 'Admin tokens' },
    ],
  },
];
