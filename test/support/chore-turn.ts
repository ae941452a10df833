/** A turn of a chore that nothing ends. */
import type { ChoreTurn } from '../../src/shared/storage/chore.ts';

export const TURN: ChoreTurn = { isOver: () => false };
