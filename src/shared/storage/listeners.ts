/** The listeners of a store's channels in this process. */
import { failureText } from '../errors.ts';

type Listener = (message: string) => void;

export function createListeners() {
  /** Each subscription is a separate object, so that one listener can subscribe twice. */
  const channels = new Map<string, Set<{ listener: Listener }>>();
  return {
    channels: () => [...channels.keys()],
    /** Returns a function that removes the listener and returns true if it was the last of its channel. */
    add(channel: string, listener: Listener): () => boolean {
      const entry = { listener };
      const entries = channels.get(channel) ?? new Set();
      channels.set(channel, entries.add(entry));
      return () => {
        entries.delete(entry);
        return entries.size === 0 && channels.get(channel) === entries && channels.delete(channel);
      };
    },
    deliver(channel: string, message: string): void {
      for (const { listener } of channels.get(channel) ?? []) {
        try {
          listener(message);
        } catch (error) {
          // The other listeners still get the message.
          process.emitWarning(`A listener of the storage failed: ${failureText(error)}`);
        }
      }
    },
    clear: () => channels.clear(),
  };
}
