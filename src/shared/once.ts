/** Wraps work that must run only once, such as closing. */

/** Every call returns the result or promise of the first. If the work throws, the next call runs it again. */
export function once<T extends object>(work: () => T): () => T {
  let result: T | undefined;
  return () => {
    result ??= work();
    return result;
  };
}
