/** Records every byte that this process sends over TCP, by destination port. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';

export interface OutboundRecorder {
  /** All data sent to these ports, as Latin-1 text. */
  sentTo(ports: readonly number[]): string;
  stop(): void;
}

type Chunk = string | Uint8Array;
/** All writes of a socket go through `_writeGeneric`. `connect` would restore a replaced `write`. */
type WritingSocket = Socket & {
  _writeGeneric(writev: boolean, data: Chunk | { chunk: Chunk }[], ...rest: unknown[]): void;
};

export function recordOutbound(): OutboundRecorder {
  const sent: { port: number | undefined; text: string }[] = [];
  const stop = watchSockets((port, text) => void sent.push({ port, text }));
  return {
    sentTo: (ports) =>
      sent
        .filter(({ port }) => port !== undefined && ports.includes(port))
        .map(({ text }) => text)
        .join(''),
    stop,
  };
}

/** Calls `onSent` with each write to a socket that this process opens, as Latin-1 text. @returns stops this */
export function watchSockets(onSent: (port: number | undefined, text: string) => void): () => void {
  const watch = (message: unknown) => {
    const { socket } = message as { socket: WritingSocket };
    const write = socket._writeGeneric;
    socket._writeGeneric = function watched(this: WritingSocket, writev, data, ...rest) {
      const chunks = Array.isArray(data) ? data.map(({ chunk }) => chunk) : [data];
      // While connecting, this is called again later.
      if (!this.connecting) onSent(this.remotePort, chunks.map(textOf).join(''));
      return write.call(this, writev, data, ...rest);
    };
  };
  subscribe('net.client.socket', watch);
  return () => void unsubscribe('net.client.socket', watch);
}

function textOf(chunk: Chunk): string {
  return typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('latin1');
}
