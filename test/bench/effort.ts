/** The input and the output of each part of the benchmark. */

export interface Effort {
  /** Duration of each run. */
  seconds: number;
  /** Number of runs of each contestant, whose medians are used. */
  runs: number;
  /** Number of users in the storage of the part `admin`. */
  users: number;
}

/** Prints progress, because the benchmark takes minutes. */
export const print = (text: string): void => void process.stdout.write(text);
