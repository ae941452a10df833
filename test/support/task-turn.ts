/** A turn of a scheduled task that never ends. */
import type { TaskTurn } from '../../src/shared/storage/scheduled-task.ts';

export const ENDLESS_TURN: TaskTurn = { isOver: () => false };
