/** A turn of a chore that nothing ends. */
import type { ChoreTurn } from '../../src/storage/chore.ts';

export const TURN: ChoreTurn = { isOver: () => false };
