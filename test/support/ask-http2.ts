/** Sends single requests over TLS and HTTP/2 to a proxy on this machine that goes by another host name. */
import { connect, type IncomingHttpHeaders } from 'node:http2';

export interface Http2Response {
  status: number;
  headers: IncomingHttpHeaders;
  body: Buffer;
}

/** Rejects where the proxy speaks no HTTP/2. */
export function askOverHttp2(
  { port, host, cert }: { port: number; host: string; cert: string },
  path: string,
  headers: Record<string, string> = {},
): Promise<Http2Response> {
  return new Promise((resolve, reject) => {
    const session = connect(`https://127.0.0.1:${port}`, { servername: host, ca: cert }).on('error', reject);
    const stream = session.request({ ':authority': host, ':path': path, ...headers });
    let answered: IncomingHttpHeaders = {};
    const chunks: Buffer[] = [];
    stream.on('response', (given) => {
      answered = given;
    });
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.on('error', reject);
    stream.on('end', () => {
      session.close();
      resolve({ status: Number(answered[':status']), headers: answered, body: Buffer.concat(chunks) });
    });
    stream.end();
  });
}
