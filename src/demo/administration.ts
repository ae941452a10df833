/** Plans the administrator's changes in the demo's history, with their audit entries. */
import { dismissStep } from '../gatehouse/admin/overview/setup.ts';
import type { AuditEntry } from '../gatehouse/audit/kinds.ts';
import type { RegistrationExtras } from '../gatehouse/connected-apps/app-registry.ts';
import { newServiceAccountId } from '../gatehouse/relay/service-account.ts';
import { PAUSES_SECONDS } from '../gatehouse/webhooks/message.ts';
import { newWebhookId, WEBHOOK_EVENTS } from '../gatehouse/webhooks/webhook-store.ts';
import { newOpaqueTokenId } from '../shared/storage/opaque-token.ts';
import { DAY_MS, HOUR_MS, isoTime } from '../shared/time.ts';
import { type DemoApp, demoRegistration } from './apps.ts';
import { ADMINISTRATOR, DISABLED, REPORTS } from './people.ts';
import type { Scene } from './scene.ts';
import { DAYS, startOfDay } from './timeline.ts';
import { userOf } from './visits.ts';

/** `days`: the age of the token; `validDays`: its lifetime. */
const ADMIN_TOKENS = [
  { name: 'terraform', scope: 'write', days: 21, validDays: 90 },
  { name: 'metrics-export', scope: 'read', days: 25, validDays: 30 },
] as const;
const BACKUP_DAYS_AGO = [22, 15, 8, 1];
/** The latest time of each delivery attempt after the event: a pause may be up to a tenth longer than planned. */
const DELIVERIES_MS = PAUSES_SECONDS.map((_pause, at) =>
  PAUSES_SECONDS.slice(0, at + 1).reduce<number>((sum, pause) => sum + pause * 1_100, 0),
);

/**
 * @returns a function that plans a change by the administrator with its audit entry. `apply` makes the change, and
 * returns the target and the facts of the entry
 */
export function changesOf({
  modules,
  timeline,
  now,
  sandbox,
}: Pick<Scene, 'modules' | 'timeline' | 'now' | 'sandbox'>) {
  const { id } = userOf({ sandbox }, ADMINISTRATOR);
  const by = {
    actor: { kind: 'administrator', id, name: ADMINISTRATOR.login },
    address: ADMINISTRATOR.address,
  } as const;
  type TargetAndFacts = Pick<AuditEntry, 'target' | 'facts'>;
  return (daysAgo: number, event: AuditEntry['event'], apply: () => Promise<TargetAndFacts> | TargetAndFacts): void =>
    timeline.at(now - daysAgo * DAY_MS, async () => modules.audit.note({ event, ...by, ...(await apply()) }));
}

/** @returns the id of the service account */
export function planAdministration(scene: Scene): { serviceAccount: string } {
  const { modules, timeline, now, apps, sandbox } = scene;
  const change = changesOf(scene);
  const { platform, team } = apps;
  const register = (daysAgo: number, app: DemoApp, extras?: RegistrationExtras): void =>
    change(daysAgo, 'connected_app.created', async () => {
      await modules.apps.create(demoRegistration(app, sandbox), app.clientSecret, extras);
      return { target: { kind: 'connected_app', id: app.id, name: app.name } };
    });
  // After the first visit of the administrator, and before the visits of the other users.
  register((now - startOfDay(now - DAYS * DAY_MS)) / DAY_MS, platform);
  register(29, team, { secretExpiresAt: now + 6 * DAY_MS + 5 * HOUR_MS });
  const serviceAccount = newServiceAccountId();
  change(27.5, 'service_account.created', async () => {
    const { name, token: apiToken } = REPORTS;
    const { origin } = new URL(sandbox.platformUrl);
    await modules.serviceAccounts.create({ id: serviceAccount, name, app: platform.id, apiToken, platform: origin });
    return { target: { kind: 'service_account', id: serviceAccount, name } };
  });
  for (const { name, scope, days, validDays } of ADMIN_TOKENS) {
    const id = newOpaqueTokenId();
    const expiresAt = now + (validDays - days) * DAY_MS;
    change(days, 'admin_token.created', async () => {
      await modules.adminTokens.create({ id, name, scope, expiresAt });
      return { target: { kind: 'admin_token', id, name }, facts: { scope, expiresAt: isoTime(expiresAt) } };
    });
  }
  const { id, email } = userOf(scene, DISABLED);
  change(5.9, 'user.disabled', async () => {
    await modules.users.setDisabled(id, true);
    return { target: { kind: 'user', id, name: email } };
  });
  for (const days of BACKUP_DAYS_AGO) {
    const backup = {
      event: 'storage.backed_up',
      actor: { kind: 'operator' },
      facts: { items: 9_400 - days * 120 },
    } as const;
    timeline.at(now - days * DAY_MS, () => modules.audit.note(backup));
    const target = { kind: 'connected_app', id: platform.id, name: platform.name };
    change(days + 0.2, 'connected_app.checked', () => ({ target }));
  }
  change(20, 'setup.step_dismissed', async () => {
    await dismissStep(modules.store, 'alerts');
    return { target: { kind: 'setup_step', id: 'alerts' } };
  });
  planWebhooks(scene);
  return { serviceAccount };
}

function planWebhooks(scene: Scene): void {
  const { modules, receivers } = scene;
  const change = changesOf(scene);
  for (const [url, days] of [
    [receivers.working, 26],
    [receivers.failing, 19],
  ] as const) {
    const id = newWebhookId();
    change(days, 'webhook.created', async () => {
      await modules.webhooks.registered.create(id, { url, events: WEBHOOK_EVENTS, disabled: false });
      return { target: { kind: 'webhook', id }, facts: { host: new URL(url).host } };
    });
  }
  modules.events.listen({
    connectionCreated: () => planDeliveries(scene),
    reconnectNeeded: () => planDeliveries(scene),
  });
}

/** Delivers the messages of the latest event, and retries at the times at which Gatehouse would. */
function planDeliveries({ modules, timeline }: Scene): void {
  const now = timeline.clock();
  for (const milliseconds of DELIVERIES_MS) {
    timeline.at(now + milliseconds, async () => {
      await modules.webhooks.messages.settle();
      await modules.webhooks.messages.deliver();
    });
  }
}
