/** Owns maps that forget what was set longest ago once they are full: for what can be worked out or read again. */

export interface BoundedMap<T> {
  get(key: string): T | undefined;
  set(key: string, value: T): void;
  delete(key: string): void;
  clear(): void;
}

export function createBoundedMap<T>(most: number): BoundedMap<T> {
  const entries = new Map<string, T>();
  return {
    get: (key) => entries.get(key),
    delete: (key) => void entries.delete(key),
    clear: () => entries.clear(),
    set(key, value) {
      entries.delete(key);
      entries.set(key, value);
      if (entries.size <= most) return;
      const [oldest] = entries.keys();
      if (oldest !== undefined) entries.delete(oldest);
    },
  };
}
