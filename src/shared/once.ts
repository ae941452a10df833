/** Wraps work that must run only once, such as closing. */

/** Every call returns the result, or the promise, of the first. Work that throws runs again at the next call. */
export function once<T extends object>(work: () => T): () => T {
  let result: T | undefined;
  return () => {
    result ??= work();
    return result;
  };
}
