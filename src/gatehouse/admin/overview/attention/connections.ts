/** Attention for connections that need reconnecting or are unverified, by app, with their most frequent cause. */
import { FAILURE_WORDS } from '../../../grants/refresh-failure.ts';
import type { AdminParts } from '../../parts.ts';
import type { AttentionItem } from './view.ts';

/** The largest number of connections that is counted for each state. */
const MAX_LISTED = 1_000;
/** The number of connections of each app that are read to find the cause. */
const SAMPLE = 10;

export function connectionAttention({ grants, connectedApps }: Pick<AdminParts, 'grants' | 'connectedApps'>) {
  const { index } = grants;

  /** Finds the most frequent cause of the newest connections, in words. */
  const usualCause = async (connections: readonly { userId: string; appId: string }[]): Promise<string | null> => {
    const loaded = await Promise.all(
      connections
        .slice(0, SAMPLE)
        .map(({ userId, appId }) => grants.connections.find(userId, appId).catch(() => undefined)),
    );
    // A connection that has recovered meanwhile has no cause.
    const causes = loaded.flatMap((connection) => {
      if (!connection) return FAILURE_WORDS.unreadable;
      const { cause, reason } = connection;
      if (cause === undefined) return [];
      return reason === undefined ? FAILURE_WORDS[cause] : `${FAILURE_WORDS[cause]} (${reason})`;
    });
    const [largestGroup] = [...Map.groupBy(causes, (cause) => cause)].sort(
      ([, left], [, right]) => right.length - left.length,
    );
    return largestGroup?.[0] ?? null;
  };

  const attentionFor = async (state: 'reconnect_needed' | 'unverified'): Promise<AttentionItem[]> => {
    const { items: listed } = await index.page({ state, limit: MAX_LISTED });
    const atLeast = listed.length === MAX_LISTED ? 'At least ' : '';
    const byApp = [...Map.groupBy(listed, ({ appId }) => appId)].sort(
      ([, left], [, right]) => right.length - left.length,
    );
    return Promise.all(
      byApp.map(async ([appId, ofApp]) => {
        const name = connectedApps.apps.nameOf(appId);
        const isSingle = ofApp.length === 1;
        const count = `${atLeast}${ofApp.length.toLocaleString('en-GB')} ${isSingle ? 'connection' : 'connections'} to ${name}`;
        return {
          ...(state === 'reconnect_needed'
            ? {
                kind: 'connections_reconnect_needed' as const,
                text: `${count} ${isSingle ? 'needs' : 'need'} reconnecting`,
              }
            : { kind: 'connections_unverified' as const, text: `${count} ${isSingle ? 'is' : 'are'} unverified` }),
          severity: 'critical',
          name: `${name} (${ofApp.length.toLocaleString('en-GB')})`,
          detail: await usualCause(ofApp),
          since: null,
          path: `/connections?app=${encodeURIComponent(appId)}&health=${state}`,
          action: 'Show',
        };
      }),
    );
  };

  return async () => [...(await attentionFor('reconnect_needed')), ...(await attentionFor('unverified'))];
}
