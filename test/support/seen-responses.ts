/** Sees every response that a site of this process sends, to whichever client, as it leaves the server. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { apiContract, type SeenResponse } from './api-document.ts';
import { type SiteOptions, startSite, type TestSite } from './gatehouse.ts';

const CHANNEL = 'http.server.request.start';

/** @returns the responses so far, which grow until `stop` is called */
export function seenResponses(site: { url: string }): { seen: SeenResponse[]; stop(): void } {
  const seen: SeenResponse[] = [];
  const { host } = new URL(site.url);
  const watch = (message: unknown) => {
    const { request, response } = message as { request: IncomingMessage; response: ServerResponse };
    if (request.headers.host === host) record(request, response, seen);
  };
  subscribe(CHANNEL, watch);
  return { seen, stop: () => void unsubscribe(CHANNEL, watch) };
}

/** As `startSite`; to close the site fails where a response was not as its OpenAPI document says. */
export async function startDocumentedSite(options?: SiteOptions): Promise<TestSite> {
  const site = await startSite(options);
  const contract = await apiContract(site);
  const { seen, stop } = seenResponses(site);
  const close = async () => {
    stop();
    await site.close();
    const faults = seen.flatMap(contract.faultsOf);
    if (faults.length > 0) throw new Error(`Not as documented:\n${faults.join('\n')}`);
  };
  return { ...site, close };
}

function record({ method = '', url = '' }: IncomingMessage, response: ServerResponse, seen: SeenResponse[]): void {
  const chunks: Buffer[] = [];
  const collect = (chunk: unknown, encoding: unknown) => {
    if (typeof chunk === 'string') chunks.push(Buffer.from(chunk, encoding === 'latin1' ? 'latin1' : 'utf8'));
    else if (chunk instanceof Uint8Array) chunks.push(Buffer.from(chunk));
  };
  const { write, end } = response;
  response.write = ((...given: Parameters<typeof write>) => {
    collect(given[0], given[1]);
    return write.apply(response, given);
  }) as typeof write;
  response.end = ((...given: Parameters<typeof end>) => {
    collect(given[0], given[1]);
    // Headers that are given with the status alone are in the head that was sent, and nowhere else.
    response.once('finish', () => {
      const [, contentType] = /^content-type: *([^\r]*)/im.exec(String(Reflect.get(response, '_header'))) ?? [];
      const [path = ''] = url.split('?');
      seen.push({ method, path, status: response.statusCode, contentType, body: Buffer.concat(chunks).toString() });
    });
    return end.apply(response, given);
  }) as typeof end;
}
