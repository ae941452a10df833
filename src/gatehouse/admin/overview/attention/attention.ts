/** The attention list: each item has a reason, and a link to the page for it. */
import type { AdminParts } from '../../parts.ts';
import { appAttention } from './apps.ts';
import { connectionAttention } from './connections.ts';
import { binAttention, keyAttention } from './data.ts';
import { tokenAttention, webhookAttention } from './services.ts';
import { type Attention, KINDS } from './view.ts';

/** The list has at most five items of a kind. If there are more, the last one links to the others. */
const MAX_OF_KIND = 5;

/** Returns a function that reads a bounded number of records. Items of severity `bad` come first. */
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
    const badFirst = items.toSorted(
      (left, right) => Number(right.severity === 'bad') - Number(left.severity === 'bad'),
    );
    const shown = [...Map.groupBy(badFirst, ({ kind }) => kind).values()].flatMap(limitItems);
    return shown.toSorted((left, right) => Number(right.severity === 'bad') - Number(left.severity === 'bad'));
  };
}

/** Replaces the items above the limit by a link to the others. @param items at least one item, all of one kind */
function limitItems(items: readonly Attention[]): readonly Attention[] {
  if (items.length <= MAX_OF_KIND) return items;
  const shown = items.slice(0, MAX_OF_KIND - 1);
  const others = items.slice(MAX_OF_KIND - 1);
  return [...shown, ...others.slice(0, 1).map((first) => linkToOthers(first, others.length))];
}

function linkToOthers({ kind, severity }: Attention, count: number): Attention {
  const { path, words } = KINDS[kind];
  const text = `${count.toLocaleString('en-GB')} more ${words}`;
  return { kind, severity, text, detail: null, since: null, path, action: 'Show' };
}
