/** A collector of OpenTelemetry traces over HTTP (OTLP/HTTP, JSON). */
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface CollectedSpan {
  traceId: string;
  spanId: string;
  parentSpanId: string;
  name: string;
  /** 2: server; 3: client. */
  kind: number;
  /** 2: an error. */
  status: number;
  attributes: Record<string, unknown>;
}

export interface Collector {
  endpoint: string;
  spans(): CollectedSpan[];
  /** All received bodies, as text. */
  raw(): string;
  resource(): Record<string, unknown>;
  headers(): IncomingHttpHeaders[];
  close(): Promise<void>;
}

interface KeyValue {
  key: string;
  value: Record<string, unknown>;
}
interface RawSpan extends Omit<CollectedSpan, 'attributes' | 'status'> {
  attributes: KeyValue[];
  status: { code?: number };
}
interface Export {
  resourceSpans: { resource: { attributes: KeyValue[] }; scopeSpans: { spans: RawSpan[] }[] }[];
}

export async function startCollector(): Promise<Collector> {
  const bodies: string[] = [];
  const heads: IncomingHttpHeaders[] = [];
  const server = createServer(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const isTrace = req.method === 'POST' && req.url === '/v1/traces';
    if (isTrace) {
      heads.push(req.headers);
      bodies.push(Buffer.concat(chunks).toString('utf8'));
    }
    res.writeHead(isTrace ? 200 : 404, { 'content-type': 'application/json' }).end('{}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const exported = () => bodies.flatMap((body) => (JSON.parse(body) as Export).resourceSpans);
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans: () =>
      exported().flatMap(({ scopeSpans }) =>
        scopeSpans.flatMap(({ spans }) =>
          spans.map((span) => ({
            ...span,
            parentSpanId: span.parentSpanId ?? '',
            status: span.status?.code ?? 0,
            attributes: plain(span.attributes),
          })),
        ),
      ),
    raw: () => bodies.join('\n'),
    resource: () => plain(exported()[0]?.resource.attributes ?? []),
    headers: () => heads,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function plain(attributes: KeyValue[]): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
}
