/** The commands of one turn of the event loop: they leave in one packet, and the reads among them as one command. */
import type { Redis } from 'ioredis';
import { refusesSeveralKeys } from './faults.ts';

interface Read {
  key: string;
  resolve(value: string | null): void;
  reject(error: unknown): void;
}

/** Limits how many reads fail together if one command is late. */
const KEYS_PER_COMMAND = 256;

/**
 * One packet for each turn more than doubles the number of commands that a process can send. The turn ends with
 * `setImmediate`, after all requests that arrived together.
 * @param readAll returns the values in the order of the keys
 */
export function createTurn(
  client: Redis,
  readOne: (key: string) => Promise<string | null>,
  readAll: (keys: string[]) => Promise<(Buffer | null)[]>,
) {
  let held: Redis['stream'] | undefined;
  let waiting: Read[] = [];
  let takesSeveralKeys = true;

  const readEach = (reads: readonly Read[]) => {
    for (const { key, resolve, reject } of reads) readOne(key).then(resolve, reject);
  };

  const readTogether = async (reads: readonly Read[]) => {
    if (reads.length === 1 || !takesSeveralKeys) return readEach(reads);
    try {
      const values = await readAll(reads.map(({ key }) => key));
      for (const [n, { resolve }] of reads.entries()) resolve(values[n]?.toString() ?? null);
    } catch (error) {
      if (refusesSeveralKeys(error)) {
        takesSeveralKeys = false;
        return readEach(reads);
      }
      for (const { reject } of reads) reject(error);
    }
  };

  const begin = () => {
    if (held || !client.stream) return;
    held = client.stream;
    held.cork();
    setImmediate(end);
  };

  const end = () => {
    for (let at = 0; at < waiting.length; at += KEYS_PER_COMMAND)
      void readTogether(waiting.slice(at, at + KEYS_PER_COMMAND));
    waiting = [];
    held?.uncork();
    held = undefined;
  };

  return {
    /** Holds back all commands until the end of the turn. */
    begin,
    end,
    /** How many reads wait for the end of the turn. */
    waiting: () => waiting.length,
    /** Reads a value at the end of the turn, together with all others. */
    get(key: string): Promise<string | null> {
      begin();
      if (!held) return readOne(key);
      return new Promise((resolve, reject) => waiting.push({ key, resolve, reject }));
    },
  };
}
