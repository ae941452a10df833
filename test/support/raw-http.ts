/** Sends raw bytes that no HTTP client would send, and reads the response until the connection is closed or silent. */
import { connect } from 'node:net';

export interface RawResponse {
  /** 0 if the connection was closed without a response. */
  status: number;
  /** Names in lower case. */
  headers: Map<string, string[]>;
  /** Everything after the head of the first response. */
  rest: string;
  /** Whether the other side closed the connection. */
  closed: boolean;
}

/** If nothing arrives for this long, the server keeps the connection open. */
const SILENCE_MILLISECONDS = 1_500;

/** @param disconnectAfterMilliseconds closes the connection after this time */
export function sendRaw(
  url: string,
  bytes: string | Buffer,
  disconnectAfterMilliseconds?: number,
): Promise<RawResponse> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    let text = '';
    let closed = false;
    const socket = connect(Number(port), hostname, () => socket.write(bytes));
    const end = () => {
      clearTimeout(timer);
      socket.destroy();
      resolve({ ...parseResponse(text), closed });
    };
    let timer = disconnectAfterMilliseconds === undefined ? undefined : setTimeout(end, disconnectAfterMilliseconds);
    socket.setEncoding('latin1').on('data', (chunk: string) => {
      text += chunk;
      if (disconnectAfterMilliseconds !== undefined) return;
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

function parseResponse(text: string): Omit<RawResponse, 'closed'> {
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
