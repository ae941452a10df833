/** The words of the steps that are left to set up, and where each is done. Pure. */
import type { z } from 'zod';
import type { Notice } from '../../../shared/pages/page-data.ts';
import type { ConnectedApp } from '../../../shared/provider/connected-app.ts';
import type { SetupStep, setupJson } from './setup.ts';

export interface SetupWords {
  step: SetupStep;
  text: string;
  /** With code between backticks. */
  detail: string;
  /** A path below the public URL, and the words of the link to it. */
  link: { path: string; action: string };
}

const WORDS: Record<SetupStep, (apps: readonly ConnectedApp[]) => Omit<SetupWords, 'step'>> = {
  app_check: ([app, ...others]) => ({
    text: app ? 'Check a connected app' : 'Register a connected app',
    detail: 'The check finds faults of a registration before users do. None has passed it yet.',
    link: app
      ? {
          path:
            others.length === 0 ? `/admin/connected-apps/${encodeURIComponent(app.id)}/check` : '/admin/connected-apps',
          action: 'Check',
        }
      : { path: '/admin/register-app', action: 'Register' },
  }),
  sign_in: () => ({
    text: 'Let a first user sign in',
    detail: 'Only one user has signed in so far. The page for it is `/sign-in`.',
    link: { path: '/docs/your-front-end', action: 'Show the guide' },
  }),
  connection: () => ({
    text: 'Connect a first account',
    detail: 'No user has connected an account of a platform.',
    link: { path: '/connections', action: 'Connect' },
  }),
  webhook: () => ({
    text: 'Create a webhook',
    detail: 'It tells your program when a user has to reconnect.',
    link: { path: '/admin/webhooks/new', action: 'Create' },
  }),
  backup: () => ({
    text: 'Make a backup',
    detail: '`npm run -s gatehouse -- backup FILE` makes one while Gatehouse runs. The audit trail has none.',
    link: { path: '/docs/backup', action: 'Show the guide' },
  }),
  alerts: () => ({
    text: 'Set up alerts',
    detail: '`docs/alerts.yml` has rules for Prometheus. Gatehouse cannot see whether you use them.',
    link: { path: '/docs/operating#alerts-what-to-do', action: 'Show the guide' },
  }),
};

export function openSteps(setup: readonly z.output<typeof setupJson>[], apps: readonly ConnectedApp[]): SetupWords[] {
  const enabled = apps.filter(({ disabled }) => !disabled);
  return setup.filter(({ state }) => state === 'open').map(({ step }) => ({ step, ...WORDS[step](enabled) }));
}

export const dismissedNotice = (step: SetupStep): Notice => ({
  tone: 'success',
  text: `“${WORDS[step]([]).text}” is dismissed.`,
});
