/** Records every response that a site in this process sends, to any client. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { apiContract, type RecordedResponse } from './api-document.ts';
import { type SiteOptions, startSite, type TestSite } from './gatehouse.ts';

const CHANNEL = 'http.server.request.start';

/** @returns the responses so far, which grow until `stop` is called */
export function recordResponses(site: { url: string }): { seen: RecordedResponse[]; stop(): void } {
  const seen: RecordedResponse[] = [];
  const { host } = new URL(site.url);
  const watch = (message: unknown) => {
    const { request, response } = message as { request: IncomingMessage; response: ServerResponse };
    if (request.headers.host === host) record(request, response, seen);
  };
  subscribe(CHANNEL, watch);
  return { seen, stop: () => void unsubscribe(CHANNEL, watch) };
}

/** Like `startSite`. Closing the site fails if a response differed from the OpenAPI document. */
export async function startDocumentedSite(options?: SiteOptions): Promise<TestSite> {
  const site = await startSite(options);
  const contract = await apiContract(site);
  const { seen, stop } = recordResponses(site);
  const close = async () => {
    stop();
    await site.close();
    const faults = seen.flatMap(contract.faultsOf);
    if (faults.length > 0) throw new Error(`Not as documented:\n${faults.join('\n')}`);
  };
  return { ...site, close };
}

function record({ method = '', url = '' }: IncomingMessage, response: ServerResponse, seen: RecordedResponse[]): void {
  const chunks: Buffer[] = [];
  const collect = (chunk: unknown, encoding: unknown) => {
    if (typeof chunk === 'string') chunks.push(Buffer.from(chunk, encoding === 'latin1' ? 'latin1' : 'utf8'));
    else if (chunk instanceof Uint8Array) chunks.push(Buffer.from(chunk));
  };
  const { write, end } = response;
  response.write = ((...args: Parameters<typeof write>) => {
    collect(args[0], args[1]);
    return write.apply(response, args);
  }) as typeof write;
  response.end = ((...args: Parameters<typeof end>) => {
    collect(args[0], args[1]);
    // Headers that `writeHead` sets are only in the head that was sent.
    response.once('finish', () => {
      const [, contentType] = /^content-type: *([^\r]*)/im.exec(String(Reflect.get(response, '_header'))) ?? [];
      const [, encoding] = /^content-encoding: *([^\r]*)/im.exec(String(Reflect.get(response, '_header'))) ?? [];
      const [path = ''] = url.split('?');
      const body = decoded(Buffer.concat(chunks), encoding).toString();
      seen.push({ method, path, status: response.statusCode, contentType, body });
    });
    return end.apply(response, args);
  }) as typeof end;
}

const decoded = (body: Buffer, encoding: string | undefined): Buffer =>
  body.length === 0
    ? body
    : encoding === 'br'
      ? brotliDecompressSync(body)
      : encoding === 'gzip'
        ? gunzipSync(body)
        : body;
