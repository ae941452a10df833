/** What needs attention, in groups: each has a reason, and a link to the page for it. */
import type { AdminParts } from '../../parts.ts';
import { appAttention } from './apps.ts';
import { connectionAttention } from './connections.ts';
import { binAttention, keyAttention } from './data.ts';
import { tokenAttention, webhookAttention } from './services.ts';
import { type Attention, type AttentionItem, GROUPS } from './view.ts';

/** The number of items that a group names, the worst first. */
const MAX_NAMED = 3;

/** Returns a function that reads a bounded number of records. Groups of severity `bad` come first. */
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
    return badFirst(
      [...Map.groupBy(items, ({ kind }) => kind).values()].flatMap((ofKind) => groupOf(badFirst(ofKind))),
    );
  };
}

const badFirst = <T extends Pick<Attention, 'severity'>>(items: readonly T[]): T[] =>
  items.toSorted((left, right) => Number(right.severity === 'bad') - Number(left.severity === 'bad'));

/** @param items all of one kind, the worst first */
function groupOf(items: readonly AttentionItem[]): readonly Attention[] {
  const [worst, second] = items;
  const group = worst && GROUPS[worst.kind];
  if (!second || !group) return items.map(({ name: _, ...item }) => ({ ...item, count: 1 }));
  const { kind, severity } = worst;
  const count = items.length;
  const names = items.slice(0, MAX_NAMED).map(({ name, text }) => name ?? text);
  const others = count > MAX_NAMED ? [`and ${(count - MAX_NAMED).toLocaleString('en-GB')} more`] : [];
  const detail = [...names, ...others].join(', ');
  const text = `${count.toLocaleString('en-GB')} ${group.words}`;
  return [{ kind, severity, text, detail, since: null, path: group.path, action: 'Show', count }];
}
