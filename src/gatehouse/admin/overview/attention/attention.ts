/** What needs an administrator: each thing with its reason and the page on which to deal with it. */
import type { AdminParts } from '../../parts.ts';
import { appsIn } from './apps.ts';
import { connectionsIn } from './connections.ts';
import { binsIn, keysIn } from './data.ts';
import { tokensIn, webhooksIn } from './services.ts';
import { type Attention, KINDS } from './view.ts';

/** Of one kind; if there are more, the last one leads to the list of the rest. */
const MAX_OF_KIND = 5;

/** @returns a function that reads a bounded number of records; what does not work comes first */
export function createAttention(parts: AdminParts): () => Promise<Attention[]> {
  const checks = [
    connectionsIn(parts),
    appsIn(parts),
    tokensIn(parts),
    webhooksIn(parts),
    binsIn(parts),
    keysIn(parts),
  ];
  return async () => {
    const found = (await Promise.all(checks.map((check) => check()))).flat();
    const badFirst = found.toSorted(
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
