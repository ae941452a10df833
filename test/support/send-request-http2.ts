/** Sends single requests over TLS and HTTP/2 to a proxy on this machine, under another host name. */
import { connect, type IncomingHttpHeaders } from 'node:http2';

export interface Http2Response {
  status: number;
  headers: IncomingHttpHeaders;
  body: Buffer;
}

/** Rejects if the proxy does not support HTTP/2. */
export function sendRequestOverHttp2(
  { port, host, cert }: { port: number; host: string; cert: string },
  path: string,
  headers: Record<string, string> = {},
): Promise<Http2Response> {
  return new Promise((resolve, reject) => {
    const session = connect(`https://127.0.0.1:${port}`, { servername: host, ca: cert }).on('error', reject);
    const stream = session.request({ ':authority': host, ':path': path, ...headers });
    let responseHeaders: IncomingHttpHeaders = {};
    const chunks: Buffer[] = [];
    stream.on('response', (received) => {
      responseHeaders = received;
    });
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.on('error', reject);
    stream.on('end', () => {
      session.close();
      resolve({ status: Number(responseHeaders[':status']), headers: responseHeaders, body: Buffer.concat(chunks) });
    });
    stream.end();
  });
}
