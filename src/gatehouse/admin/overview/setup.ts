/** What is left to set up. A step is gone once a fact shows that it is done, or once an administrator dismisses it. */
import type { Request } from 'express';
import { z } from 'zod';
import { AppError } from '../../../shared/errors.ts';
import { keys } from '../../../shared/storage/keys.ts';
import type { Store } from '../../../shared/storage/store.ts';
import { updateRecord } from '../../../shared/storage/update-record.ts';
import { problemsIn } from '../../connected-apps/finding.ts';
import { audited } from '../change.ts';
import type { AdminParts } from '../parts.ts';

/** None is to find an administrator: only administrators see the steps. */
const STEPS = ['app_check', 'sign_in', 'connection', 'webhook', 'backup', 'alerts'] as const;
export type SetupStep = (typeof STEPS)[number];

export const setupJson = z.object({
  step: z.enum(STEPS),
  state: z.enum(['open', 'done', 'dismissed']),
});

interface StoredSteps {
  dismissed: readonly SetupStep[];
}

export async function dismissStep(store: Store, step: SetupStep): Promise<void> {
  await updateRecord<StoredSteps>(store, keys.setupSteps, (stored) => {
    const dismissed = stored?.dismissed ?? [];
    return { ...stored, dismissed: [...new Set([...dismissed, step])] };
  });
}

export interface Setup {
  read(): Promise<z.output<typeof setupJson>[]>;
  /** Dismisses the step of the path. @throws AppError `not_found` */
  dismiss(req: Request): Promise<SetupStep>;
}

export function createSetup(parts: AdminParts): Setup {
  const { storage, users, connectedApps, grants, webhooks, audit } = parts;
  const { apps, checks } = connectedApps;

  const hasPassed = async (appId: string): Promise<boolean> => {
    const lastCheck = await checks.read(appId);
    return lastCheck !== undefined && problemsIn(lastCheck.findings).length === 0;
  };

  const IS_DONE: Record<SetupStep, () => Promise<boolean>> = {
    async app_check() {
      for (const { id, disabled } of apps.list()) if (!disabled && (await hasPassed(id))) return true;
      return false;
    },
    // The first user is the administrator who sees this.
    sign_in: async () => (await users.store.count()) > 1,
    connection: async () => (await grants.index.count()) > 0,
    webhook: async () => (await webhooks.registered.page({ limit: 1 })).items.length > 0,
    backup: async () => (await audit.trail.page({ limit: 1, filter: { event: 'storage.backed_up' } })).items.length > 0,
    // Whether a monitoring system reads the metrics and has rules for them is not known here.
    alerts: async () => false,
  };

  return {
    async read() {
      const stored = await storage.store.get(keys.setupSteps);
      const { dismissed } = stored ? (JSON.parse(stored.value) as StoredSteps) : { dismissed: [] };
      return Promise.all(
        STEPS.map(async (step) => {
          if (dismissed.includes(step)) return { step, state: 'dismissed' as const };
          return { step, state: (await IS_DONE[step]()) ? ('done' as const) : ('open' as const) };
        }),
      );
    },

    async dismiss(req) {
      const step = STEPS.find((name) => name === req.params.step);
      if (step === undefined) throw new AppError('not_found', { detail: 'There is no such step of the setup.' });
      const target = { kind: 'setup_step', id: step };
      await audited(audit, req, { event: 'setup.step_dismissed', target }, () => dismissStep(storage.store, step));
      return step;
    },
  };
}
