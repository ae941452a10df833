/** Wraps work that must run only once, such as closing. */

/** Every call returns the promise of the first. */
export function once<T>(work: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined;
  return () => {
    result ??= work();
    return result;
  };
}
