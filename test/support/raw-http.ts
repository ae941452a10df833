/** Requests that no HTTP client would send: bytes over a socket, and all bytes of the response until the socket closes. */
import { connect } from 'node:net';

export interface RawResponse {
  /** 0 where the connection was closed without an answer. */
  status: number;
  /** Names in lower case. */
  headers: Map<string, string[]>;
  /** All that came after the head of the first answer. */
  rest: string;
  /** Whether the other side closed the connection. */
  closed: boolean;
}

/** A connection that has been silent for so long after an answer is one that the other side keeps open. */
const SILENCE_MILLISECONDS = 1_500;

/** @param leaveAfterMilliseconds hangs up then, whatever has come */
export function sendRaw(url: string, bytes: string | Buffer, leaveAfterMilliseconds?: number): Promise<RawResponse> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    let text = '';
    let closed = false;
    const socket = connect(Number(port), hostname, () => socket.write(bytes));
    const end = () => {
      clearTimeout(timer);
      socket.destroy();
      resolve({ ...parse(text), closed });
    };
    let timer = leaveAfterMilliseconds === undefined ? undefined : setTimeout(end, leaveAfterMilliseconds);
    socket.setEncoding('latin1').on('data', (chunk: string) => {
      text += chunk;
      if (leaveAfterMilliseconds !== undefined) return;
      clearTimeout(timer);
      timer = setTimeout(end, SILENCE_MILLISECONDS);
    });
    socket.on('end', () => {
      closed = true;
      end();
    });
    socket.on('error', () => {
      closed = true;
      end();
    });
  });
}

function parse(text: string): Omit<RawResponse, 'closed'> {
  const [head = '', ...rest] = text.split('\r\n\r\n');
  const [line = '', ...fields] = head.split('\r\n');
  const headers = new Map<string, string[]>();
  for (const field of fields) {
    const at = field.indexOf(':');
    const name = field.slice(0, at).toLowerCase();
    headers.set(name, [...(headers.get(name) ?? []), field.slice(at + 1).trim()]);
  }
  return { status: Number(/^HTTP\/1\.1 (\d{3})/.exec(line)?.[1] ?? 0), headers, rest: rest.join('\r\n\r\n') };
}
