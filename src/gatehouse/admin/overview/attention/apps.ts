/** Attention for apps that cannot be used, failed their check, or have an old or expiring client secret. */
import { relativeTime } from '../../../../shared/pages/relative-time.ts';
import { callbackUrlOf, isUsable } from '../../../../shared/provider/connected-app.ts';
import { isoOrNull } from '../../../../shared/time.ts';
import { problemsIn } from '../../../connected-apps/finding.ts';
import { secretAge } from '../../credential.ts';
import type { AdminParts } from '../../parts.ts';
import type { AttentionItem } from './view.ts';

export function appAttention({
  connectedApps,
  publicUrl,
  clock,
}: Pick<AdminParts, 'connectedApps' | 'publicUrl' | 'clock'>) {
  const { apps, registry, checks } = connectedApps;

  const secretAttention = (id: string, setAt: string | null, expiresAt: string | null): AttentionItem[] => {
    const age = secretAge({ setAt, expiresAt }, clock());
    if (!age.expiry && !age.isOld) return [];
    const when = expiresAt === null ? '' : relativeTime(Date.parse(expiresAt), clock());
    const words = age.expiry
      ? `${age.expiry === 'expired' ? 'expired' : 'expires'} ${when}`
      : `is ${age.days?.toLocaleString('en-GB')} days old`;
    return [
      {
        kind: 'client_secret',
        severity: age.expiry === 'expired' ? 'critical' : 'warning',
        text: `Client secret of ${apps.nameOf(id)} ${words}`,
        name: `${apps.nameOf(id)} (${words})`,
        detail: 'Create a new one at the provider and enter it here.',
        since: null,
        expiresAt,
        path: `/connected-apps/${encodeURIComponent(id)}/settings#clientSecret`,
        action: 'Renew',
      },
    ];
  };

  const checkAttention = async ({ id }: { id: string }): Promise<AttentionItem[]> => {
    const lastCheck = await checks.read(id);
    const [problem] = problemsIn(lastCheck?.findings ?? []);
    if (!lastCheck || !problem) return [];
    return [
      {
        kind: 'app_check_failed',
        severity: 'critical',
        text: `The check of ${apps.nameOf(id)} failed ${relativeTime(lastCheck.at, clock())}`,
        name: apps.nameOf(id),
        detail: problem.detail,
        since: null,
        path: `/connected-apps/${encodeURIComponent(id)}/check`,
        action: 'Show',
      },
    ];
  };

  return async (): Promise<AttentionItem[]> => {
    const unusable = apps.list().filter((app) => !app.disabled && !isUsable(app, publicUrl.href));
    const attention: AttentionItem[] = unusable.map(({ id }) => ({
      kind: 'app_unusable',
      severity: 'critical',
      text: `${apps.nameOf(id)} cannot be used: its callback URL is missing`,
      name: apps.nameOf(id),
      detail: callbackUrlOf(id, publicUrl.href),
      since: null,
      path: `/connected-apps/${encodeURIComponent(id)}`,
      action: 'Open',
    }));
    const usable = apps.list().filter((app) => !app.disabled && !unusable.includes(app));
    attention.push(...(await Promise.all(usable.map(checkAttention))).flat());
    const records = await registry.list();
    for (const record of records) {
      if (!('unreadable' in record)) continue;
      attention.push({
        kind: 'app_unreadable',
        severity: 'critical',
        text: `The stored data of ${record.id} cannot be opened`,
        name: record.id,
        detail: 'Its encryption key is missing.',
        since: null,
        path: '/connected-apps',
        action: 'Show',
      });
    }
    for (const { app, secretSetAt, secretExpiresAt } of records.filter((record) => 'app' in record)) {
      if (app.clientSecret === undefined || app.disabled) continue;
      attention.push(...secretAttention(app.id, isoOrNull(secretSetAt), isoOrNull(secretExpiresAt)));
    }
    return attention;
  };
}
