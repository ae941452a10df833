/** The input and the output of each part of the benchmark. */

export interface Effort {
  /** Of each run. */
  seconds: number;
  /** How often each contestant runs; medians of them count. */
  runs: number;
  /** In the storage of the part `admin`. */
  users: number;
}

/** Prints as it goes on, since all together takes minutes. */
export const say = (text: string): void => void process.stdout.write(text);
