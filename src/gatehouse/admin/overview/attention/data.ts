/** Attention for BIN data, the BIN lookup service, and the encryption key. */
import { BUILT_IN_AS_OF } from '../../../../shared/bin/built-in-dataset.ts';
import { isOutdated } from '../../../../shared/bin/lookup-result.ts';
import { relativeTime } from '../../../../shared/pages/relative-time.ts';
import { dateText } from '../../../../shared/pages/show.ts';
import { DAY_MS } from '../../../../shared/time.ts';
import { serviceStatusOf } from '../../../bin/overview.ts';
import type { AdminParts } from '../../parts.ts';
import type { AttentionItem } from './view.ts';

const QUOTA_SHARE = 0.8;
const KEY_AGE_MS = 365 * DAY_MS;

export function binAttention({ bins, clock }: Pick<AdminParts, 'bins' | 'clock'>) {
  return async (): Promise<AttentionItem[]> => {
    const quota = await bins.quota?.status();
    const service = quota && (await bins.tally.health());
    const asOf = bins.dataset.current()?.asOf ?? BUILT_IN_AS_OF;
    const attention: AttentionItem[] = [];
    if (quota && quota.used >= quota.limit * QUOTA_SHARE) {
      attention.push({
        kind: 'bin_quota',
        severity: quota.used >= quota.limit ? 'critical' : 'warning',
        text: `${quota.used.toLocaleString('en-GB')} of ${quota.limit.toLocaleString('en-GB')} calls to the BIN lookup service are used`,
        detail: `The quota resets ${relativeTime(Date.parse(quota.resetsAt), clock())}.`,
        since: null,
        path: '/bin',
        action: 'Show',
      });
    }
    const { lastFailureAt, lastFailure } = service ?? {};
    const isRecent = Date.parse(lastFailureAt ?? '') > clock() - DAY_MS;
    if (service && isRecent && serviceStatusOf(service) === 'failing') {
      attention.push({
        kind: 'bin_service_failing',
        severity: 'critical',
        text: 'The BIN lookup service is failing',
        detail: lastFailure ? `Last failure: ${lastFailure}` : null,
        since: null,
        path: '/bin',
        action: 'Show',
      });
    }
    if (isOutdated(asOf, clock())) {
      attention.push({
        kind: 'bin_data_old',
        severity: 'warning',
        text: `BIN data is from ${dateText(asOf)}`,
        detail: 'Lookups are marked as outdated. Import a current data set.',
        since: null,
        path: '/bin',
        action: 'Import',
      });
    }
    return attention;
  };
}

export function keyAttention({ storage, clock }: Pick<AdminParts, 'storage' | 'clock'>) {
  return async (): Promise<AttentionItem[]> => {
    const kid = storage.sealer.sealingKid;
    const [, year, month, day] = /^k(\d{4})(\d\d)(\d\d)-/.exec(kid) ?? [];
    const age = clock() - Date.parse(`${year}-${month}-${day}`);
    // Only ids from `keys generate` contain a date.
    if (!(age >= KEY_AGE_MS)) return [];
    return [
      {
        kind: 'encryption_key_old',
        severity: 'warning',
        text: `Encryption key ${kid} is ${Math.floor(age / DAY_MS).toLocaleString('en-GB')} days old`,
        detail: 'Put a new key first in ENCRYPTION_KEYS.',
        since: null,
        path: '/keys',
        action: 'Show',
      },
    ];
  };
}
