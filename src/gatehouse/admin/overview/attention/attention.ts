/** The attention list: each item has a reason, and a link to the page for it. */
import type { AdminParts } from '../../parts.ts';
import { appAttention } from './apps.ts';
import { connectionAttention } from './connections.ts';
import { binAttention, keyAttention } from './data.ts';
import { tokenAttention, webhookAttention } from './services.ts';
import { type Attention, KINDS } from './view.ts';

/** At most five items per kind. If there are more, the last one links to the others. */
const MAX_OF_KIND = 5;

/** @returns a function that reads a bounded number of records; items of severity `bad` come first */
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
    const shown = [...Map.groupBy(badFirst, ({ kind }) => kind).values()].flatMap(shortened);
    return shown.toSorted((left, right) => Number(right.severity === 'bad') - Number(left.severity === 'bad'));
  };
}

/** @param ofKind at least one */
function shortened(ofKind: readonly Attention[]): readonly Attention[] {
  if (ofKind.length <= MAX_OF_KIND) return ofKind;
  const shown = ofKind.slice(0, MAX_OF_KIND - 1);
  const rest = ofKind.slice(MAX_OF_KIND - 1);
  return [...shown, ...rest.slice(0, 1).map((next) => restOf(next, rest.length))];
}

function restOf({ kind, severity }: Attention, count: number): Attention {
  const { path, words } = KINDS[kind];
  const text = `${count.toLocaleString('en-GB')} more ${words}`;
  return { kind, severity, text, detail: null, since: null, path, action: 'Show' };
}
