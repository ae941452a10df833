/** Wraps work that must run only once, such as closing. */

/** Returns a function that does the work once, and returns its result each time. If the work throws, it is repeated. */
export function once<T extends object>(work: () => T): () => T {
  let result: T | undefined;
  return () => {
    result ??= work();
    return result;
  };
}
