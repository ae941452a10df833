/** One HTTP/1.1 connection of the load generator, lean so that little CPU goes into sending requests. */
import { connect, type Socket } from 'node:net';

/** A request and its expected response. It is created once and sent many times. */
export interface PreparedRequest {
  host: string;
  port: number;
  /** The bytes of the request. */
  bytes: Buffer;
  /** The expected body; undefined if only the status is checked. */
  body: Buffer | undefined;
}

export interface ReceivedResponse {
  status: number;
  body: Buffer;
}

export interface Connection {
  /** Sends one request at a time. `done` gets undefined if the connection closed before the response was complete. */
  send(request: PreparedRequest, done: (response: ReceivedResponse | undefined) => void): void;
  close(): void;
}

export function prepareRequest(
  url: string,
  parts: { method?: string; headers?: Record<string, string>; send?: string; body?: Buffer | undefined } = {},
): PreparedRequest {
  const { hostname, port, pathname, search } = new URL(url);
  const { method = 'GET', headers = {}, send = '' } = parts;
  const length = send === '' ? {} : { 'content-length': String(Buffer.byteLength(send)) };
  const lines = Object.entries({ host: `${hostname}:${port}`, ...headers, ...length }).map(
    ([name, value]) => `${name}: ${value}`,
  );
  const text = [`${method} ${pathname}${search} HTTP/1.1`, ...lines, '', send].join('\r\n');
  return { host: hostname, port: Number(port), bytes: Buffer.from(text), body: parts.body };
}

export function isExpected({ body }: PreparedRequest, response: ReceivedResponse | undefined): boolean {
  return response?.status === 200 && (body === undefined || body.equals(response.body));
}

export function openConnection(): Connection {
  let socket: Socket | undefined;
  let received: Buffer | undefined;
  let pending: ((response: ReceivedResponse | undefined) => void) | undefined;

  const finish = (response: ReceivedResponse | undefined) => {
    const done = pending;
    pending = undefined;
    received = undefined;
    done?.(response);
  };
  const open = ({ host, port }: PreparedRequest): Socket => {
    const opened = connect({ host, port, noDelay: true });
    opened.on('data', (chunk: Buffer) => {
      received = received ? Buffer.concat([received, chunk]) : chunk;
      const response = completeResponseIn(received);
      if (response) finish(response);
    });
    opened.on('error', () => undefined);
    opened.on('close', () => {
      if (socket !== opened) return;
      socket = undefined;
      finish(undefined);
    });
    return opened;
  };

  return {
    send(request, done) {
      pending = done;
      socket ??= open(request);
      socket.write(request.bytes);
    },
    close() {
      const openSocket = socket;
      socket = undefined;
      openSocket?.destroy();
    },
  };
}

/** Returns the response if it is complete. */
function completeResponseIn(bytes: Buffer): ReceivedResponse | undefined {
  const end = bytes.indexOf('\r\n\r\n');
  if (end < 0) return undefined;
  const head = bytes.toString('latin1', 0, end);
  const [, length] = /\r\ncontent-length: *(\d+)/i.exec(head) ?? [];
  const status = Number(head.slice('HTTP/1.1 '.length, 'HTTP/1.1 200'.length));
  const start = end + '\r\n\r\n'.length;
  if (length === undefined) {
    const body = decodeChunks(bytes, start);
    return body && { status, body };
  }
  const body = bytes.subarray(start, start + Number(length));
  return body.length < Number(length) ? undefined : { status, body };
}

/** Decodes a chunked body. Returns undefined until the last chunk has arrived. */
function decodeChunks(bytes: Buffer, start: number): Buffer | undefined {
  const chunks: Buffer[] = [];
  let position = start;
  for (;;) {
    const endOfSize = bytes.indexOf('\r\n', position);
    if (endOfSize < 0) return undefined;
    const size = Number.parseInt(bytes.toString('latin1', position, endOfSize), 16);
    const chunkStart = endOfSize + 2;
    const nextPosition = chunkStart + size + 2;
    // Also true for a size that is not a number.
    if (!(nextPosition <= bytes.length)) return undefined;
    if (size === 0) return Buffer.concat(chunks);
    chunks.push(bytes.subarray(chunkStart, chunkStart + size));
    position = nextPosition;
  }
}
