/** Sends all commands of one turn of the event loop in one packet, and the reads among them as one command. */
import type { Redis } from 'ioredis';
import { refusesSeveralKeys } from './faults.ts';

interface Read {
  key: string;
  resolve(value: string | null): void;
  reject(error: unknown): void;
}

/** Limits how many reads fail together if a command exceeds its deadline. */
const KEYS_PER_COMMAND = 256;

/**
 * Collects the commands of a turn. One packet per turn more than doubles the commands that a process can send per
 * second. The turn ends with `setImmediate`, after all requests that arrived together.
 * @param readAll returns the values in the order of the keys
 */
export function createTurn(
  client: Redis,
  readOne: (key: string) => Promise<string | null>,
  readAll: (keys: string[]) => Promise<(Buffer | null)[]>,
) {
  let corkedStream: Redis['stream'] | undefined;
  let waitingReads: Read[] = [];
  let acceptsSeveralKeys = true;

  const readEach = (reads: readonly Read[]) => {
    for (const { key, resolve, reject } of reads) readOne(key).then(resolve, reject);
  };

  const readTogether = async (reads: readonly Read[]) => {
    if (reads.length === 1 || !acceptsSeveralKeys) return readEach(reads);
    try {
      const values = await readAll(reads.map(({ key }) => key));
      for (const [n, { resolve }] of reads.entries()) resolve(values[n]?.toString() ?? null);
    } catch (error) {
      if (refusesSeveralKeys(error)) {
        acceptsSeveralKeys = false;
        return readEach(reads);
      }
      for (const { reject } of reads) reject(error);
    }
  };

  const begin = () => {
    if (corkedStream || !client.stream) return;
    corkedStream = client.stream;
    corkedStream.cork();
    setImmediate(end);
  };

  const end = () => {
    for (let start = 0; start < waitingReads.length; start += KEYS_PER_COMMAND)
      void readTogether(waitingReads.slice(start, start + KEYS_PER_COMMAND));
    waitingReads = [];
    corkedStream?.uncork();
    corkedStream = undefined;
  };

  return {
    /** Delays all commands until the end of the turn. */
    begin,
    end,
    /** Returns the number of reads that wait for the end of the turn. */
    waiting: () => waitingReads.length,
    /** Reads a value at the end of the turn, together with all other reads. */
    get(key: string): Promise<string | null> {
      begin();
      // Not connected: there is no stream to cork.
      if (!corkedStream) return readOne(key);
      return new Promise((resolve, reject) => waitingReads.push({ key, resolve, reject }));
    },
  };
}
