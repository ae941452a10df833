/** Batches: the commands of one turn of the event loop leave in one packet, and the reads among them as one command. */
import type { Redis } from 'ioredis';
import { refusesSeveralKeys } from './faults.ts';

interface Wanted {
  key: string;
  resolve(value: string | null): void;
  reject(error: unknown): void;
}

export interface Turn {
  /** From here to the end of the turn commands are held back. */
  begin(): void;
  /** Asked for at the end of the turn, with all other values; undefined where nothing can be held back. */
  get(key: string): Promise<string | null> | undefined;
  /** How many values are still to be asked for. */
  waiting(): number;
  end(): void;
}

interface Asking {
  askOne(key: string): Promise<string | null>;
  /** Answers the values in the order of the keys. */
  askAll(keys: string[]): Promise<(Buffer | null)[]>;
}

/** One late answer then spoils no more than these. */
const ASKED_TOGETHER = 256;

/**
 * Commands of the same turn of the event loop leave in one packet; that more than doubles what a process can ask. The turn
 * ends with `setImmediate`, after all requests that came together: the next tick comes after each of them.
 */
export function createTurn(client: Redis, { askOne, askAll }: Asking): Turn {
  let held: Redis['stream'] | undefined;
  let wanted: Wanted[] = [];
  let isTogether = true;

  const askEach = (all: readonly Wanted[]) => {
    for (const { key, resolve, reject } of all) askOne(key).then(resolve, reject);
  };

  const ask = (all: readonly Wanted[]) => {
    if (all.length === 1 || !isTogether) return askEach(all);
    const answer = (values: (Buffer | null)[]) => {
      for (const [n, { resolve }] of all.entries()) resolve(values[n]?.toString() ?? null);
    };
    const fail = (error: unknown) => {
      if (refusesSeveralKeys(error)) {
        isTogether = false;
        return askEach(all);
      }
      for (const { reject } of all) reject(error);
    };
    return void askAll(all.map(({ key }) => key)).then(answer, fail);
  };

  const begin = () => {
    if (held || !client.stream) return;
    held = client.stream;
    held.cork();
    setImmediate(end);
  };

  const end = () => {
    for (let at = 0; at < wanted.length; at += ASKED_TOGETHER) ask(wanted.slice(at, at + ASKED_TOGETHER));
    wanted = [];
    held?.uncork();
    held = undefined;
  };

  return {
    begin,
    end,
    waiting: () => wanted.length,
    get(key) {
      begin();
      if (!held) return undefined;
      return new Promise((resolve, reject) => wanted.push({ key, resolve, reject }));
    },
  };
}
