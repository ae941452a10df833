/** What needs attention, in groups: each has a reason, and a link to the page for it. */
import { HOUR_MS } from '../../../../shared/time.ts';
import type { AdminParts } from '../../parts.ts';
import { appAttention } from './apps.ts';
import { connectionAttention } from './connections.ts';
import { binAttention, keyAttention } from './data.ts';
import { tokenAttention, webhookAttention } from './services.ts';
import { type Attention, type AttentionItem, GROUPS } from './view.ts';

/** The number of items that a group names, the worst first. */
const MAX_NAMED = 3;
/** What fails, or expires sooner than this, is always shown, also beyond the first `MIN_SHOWN` groups. */
const URGENT_MS = 48 * HOUR_MS;
const MIN_SHOWN = 3;

/** Returns a function that reads a bounded number of records. Groups of severity `critical` come first, then by expiry. */
export function createAttention(parts: AdminParts): () => Promise<Attention[]> {
  const checks = [
    connectionAttention(parts),
    appAttention(parts),
    tokenAttention(parts),
    webhookAttention(parts),
    binAttention(parts),
    keyAttention(parts),
  ];
  return async () => {
    const items = (await Promise.all(checks.map((check) => check()))).flat();
    return worstFirst(
      [...Map.groupBy(items, ({ kind }) => kind).values()].flatMap((ofKind) => groupOf(worstFirst(ofKind))),
    );
  };
}

/** @param attention the worst first */
export function foldAttention(
  attention: readonly Attention[],
  now: number,
): { shown: readonly Attention[]; folded: readonly Attention[] } {
  const urgent = attention.filter(
    ({ severity, expiresAt }) => severity === 'critical' || expiryOf({ expiresAt }) < now + URGENT_MS,
  );
  const count = Math.max(MIN_SHOWN, urgent.length);
  return { shown: attention.slice(0, count), folded: attention.slice(count) };
}

const expiryOf = ({ expiresAt }: { expiresAt?: string | null }): number =>
  expiresAt ? Date.parse(expiresAt) : Number.MAX_SAFE_INTEGER;

const worstFirst = <T extends Pick<AttentionItem, 'severity' | 'expiresAt'>>(items: readonly T[]): T[] =>
  items.toSorted(
    (left, right) =>
      Number(right.severity === 'critical') - Number(left.severity === 'critical') || expiryOf(left) - expiryOf(right),
  );

/** @param items all of one kind, the worst first */
function groupOf(items: readonly AttentionItem[]): readonly Attention[] {
  const [worst, second] = items;
  const group = worst && GROUPS[worst.kind];
  if (!second || !group) return items.map(({ name: _, ...item }) => ({ expiresAt: null, ...item, count: 1 }));
  const { kind, severity } = worst;
  const count = items.length;
  const names = items.slice(0, MAX_NAMED).map(({ name, text }) => name ?? text);
  const others = count > MAX_NAMED ? [`and ${(count - MAX_NAMED).toLocaleString('en-GB')} more`] : [];
  const detail = [...names, ...others].join(', ');
  const text = `${count.toLocaleString('en-GB')} ${group.words}`;
  const expiresAt = items.flatMap((item) => item.expiresAt ?? []).toSorted()[0] ?? null;
  return [{ kind, severity, text, detail, since: null, expiresAt, path: group.path, action: 'Show', count }];
}
