/** One HTTP/1.1 connection of the load generator, lean so that little CPU goes into sending requests. */
import { connect, type Socket } from 'node:net';

/** A request and its expected response. It is created once and sent many times. */
export interface Question {
  host: string;
  port: number;
  /** The bytes of the request. */
  bytes: Buffer;
  /** The expected body; undefined if only the status is checked. */
  body: Buffer | undefined;
}

export interface Answer {
  status: number;
  body: Buffer;
}

export interface Connection {
  /** Sends one request at a time. `done` gets undefined if the connection closed before the response was complete. */
  ask(question: Question, done: (answer: Answer | undefined) => void): void;
  close(): void;
}

export function questionOf(
  url: string,
  parts: { method?: string; headers?: Record<string, string>; send?: string; body?: Buffer | undefined } = {},
): Question {
  const { hostname, port, pathname, search } = new URL(url);
  const { method = 'GET', headers = {}, send = '' } = parts;
  const length = send === '' ? {} : { 'content-length': String(Buffer.byteLength(send)) };
  const lines = Object.entries({ host: `${hostname}:${port}`, ...headers, ...length }).map(
    ([name, value]) => `${name}: ${value}`,
  );
  const text = [`${method} ${pathname}${search} HTTP/1.1`, ...lines, '', send].join('\r\n');
  return { host: hostname, port: Number(port), bytes: Buffer.from(text), body: parts.body };
}

export function isGood({ body }: Question, answer: Answer | undefined): boolean {
  return answer?.status === 200 && (body === undefined || body.equals(answer.body));
}

export function openConnection(): Connection {
  let socket: Socket | undefined;
  let held: Buffer | undefined;
  let waiting: ((answer: Answer | undefined) => void) | undefined;

  const finish = (answer: Answer | undefined) => {
    const done = waiting;
    waiting = undefined;
    held = undefined;
    done?.(answer);
  };
  const open = ({ host, port }: Question): Socket => {
    const opened = connect({ host, port, noDelay: true });
    opened.on('data', (chunk: Buffer) => {
      held = held ? Buffer.concat([held, chunk]) : chunk;
      const answer = answerIn(held);
      if (answer) finish(answer);
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
    ask(question, done) {
      waiting = done;
      socket ??= open(question);
      socket.write(question.bytes);
    },
    close() {
      const open = socket;
      socket = undefined;
      open?.destroy();
    },
  };
}

/** Returns the response if it is complete. */
function answerIn(bytes: Buffer): Answer | undefined {
  const end = bytes.indexOf('\r\n\r\n');
  if (end < 0) return undefined;
  const head = bytes.toString('latin1', 0, end);
  const [, length] = /\r\ncontent-length: *(\d+)/i.exec(head) ?? [];
  const from = end + 4;
  const body = length === undefined ? chunksFrom(bytes, from) : bytes.subarray(from, from + Number(length));
  if (!body || (length !== undefined && body.length < Number(length))) return undefined;
  return { status: Number(head.slice(9, 12)), body };
}

/** Decodes a chunked body. Returns undefined until the last chunk has arrived. */
function chunksFrom(bytes: Buffer, start: number): Buffer | undefined {
  const chunks: Buffer[] = [];
  for (let at = start; ; ) {
    const line = bytes.indexOf('\r\n', at);
    if (line < 0) return undefined;
    const size = Number.parseInt(bytes.toString('latin1', at, line), 16);
    const from = line + 2;
    at = from + size + 2;
    if (!(at <= bytes.length)) return undefined;
    if (size === 0) return Buffer.concat(chunks);
    chunks.push(bytes.subarray(from, from + size));
  }
}
