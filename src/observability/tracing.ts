/** Owns the spans: one for each request, one for each call that leaves, sent to a collector. Loaded only where that is set. */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { IncomingMessage, RequestListener } from 'node:http';
import {
  type Context,
  defaultTextMapGetter,
  defaultTextMapSetter,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';
import { ExportResultCode, W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  type SpanExporter,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import type { TracingSettings } from '../config-groups.ts';

/** A call that leaves, as it is told here. */
export interface TracedCall {
  headers: Readonly<Record<string, string>>;
  answered(status: number): void;
  failed(reason: string): void;
  end(): void;
}

export interface Tracing {
  /** The same listener, with a span around each request and what it does. */
  around(listener: RequestListener): RequestListener;
  /** Begins the span of a call that leaves, below that of the request that it is made for. */
  beginCall(call: { method: string; origin: string }): TracedCall;
  /** Sends what there still is to send, as far as that is possible soon. */
  close(): Promise<void>;
}

/** How long a stop may wait for the collector. */
const LAST_MILLISECONDS = 3_000;

/**
 * Nothing is registered for the whole process: whoever needs the context of a request finds it here.
 * @param parts `factsOf`: what became of a request, told when it ends; `isClean`: false for texts that hold a card number;
 *   `onExported`: hears how many spans were sent, or could not be
 */
export function createTracing(parts: {
  settings: TracingSettings;
  factsOf: (req: IncomingMessage) => { route: string; id: string } | undefined;
  isClean: (text: string) => boolean;
  onExported: (outcome: 'sent' | 'lost', spans: number) => void;
}): Tracing {
  const { settings, factsOf, isClean } = parts;
  const exporter = new OTLPTraceExporter({ url: `${settings.endpoint}/v1/traces`, headers: { ...settings.headers } });
  const provider = new TracerProvider({
    resource: resourceOf(settings),
    sampler: samplerOf(settings),
    spanProcessors: [new BatchSpanProcessor({ exporter: counted(exporter, parts.onExported) })],
  });
  const tracer = provider.getTracer('gatehouse');
  const propagator = new W3CTraceContextPropagator();
  const contexts = new AsyncLocalStorage<Context>();

  /** `tracestate` and `baggage` may hold anything, and what calls us may be anyone: they are neither kept nor passed on. */
  const contextOf = ({ headers: { traceparent } }: IncomingMessage): Context =>
    typeof traceparent === 'string' && isClean(traceparent)
      ? propagator.extract(ROOT_CONTEXT, { traceparent }, defaultTextMapGetter)
      : ROOT_CONTEXT;

  return {
    around: (listener) => (req, res) => {
      const method = req.method ?? '';
      const attributes = { 'http.request.method': method };
      const above = contextOf(req);
      const span = tracer.startSpan(method, { kind: SpanKind.SERVER, attributes }, above);
      res.on('close', () => {
        const facts = factsOf(req);
        // 'none' is a request that met no route.
        if (facts && facts.route !== 'none') {
          span.updateName(`${method} ${facts.route}`).setAttribute('http.route', facts.route);
        }
        if (facts) span.setAttribute('gatehouse.request_id', facts.id);
        noteStatus(span, res.statusCode, 500);
        if (!res.writableFinished) span.setAttribute('error.type', 'caller_gone');
        span.end();
      });
      contexts.run(trace.setSpan(above, span), () => listener(req, res));
    },
    beginCall({ method, origin }) {
      const above = contexts.getStore() ?? ROOT_CONTEXT;
      const { hostname, port, protocol } = new URL(origin);
      const attributes = {
        'http.request.method': method,
        'server.address': hostname,
        'server.port': Number(port) || (protocol === 'https:' ? 443 : 80),
      };
      const span = tracer.startSpan(`${method} ${hostname}`, { kind: SpanKind.CLIENT, attributes }, above);
      const headers: Record<string, string> = {};
      propagator.inject(trace.setSpan(above, span), headers, defaultTextMapSetter);
      let over = false;
      return {
        headers,
        answered: (status) => noteStatus(span, status, 400),
        failed(reason) {
          if (!over) span.setStatus({ code: SpanStatusCode.ERROR }).setAttribute('error.type', reason);
        },
        end() {
          if (!over) span.end();
          over = true;
        },
      };
    },
    async close() {
      const late = new Promise<void>((resolve) => setTimeout(resolve, LAST_MILLISECONDS).unref());
      // A collector that is away is counted, and holds nobody up.
      await Promise.race([provider.shutdown().catch(() => undefined), late]);
    },
  };
}

/** @param fault the first status that is one of this side's (for a server those of 5xx, for a client those of 4xx too) */
function noteStatus(span: Span, status: number, fault: 400 | 500): void {
  span.setAttribute('http.response.status_code', status);
  if (status >= fault) span.setStatus({ code: SpanStatusCode.ERROR }).setAttribute('error.type', String(status));
}

/** The library reads `OTEL_RESOURCE_ATTRIBUTES` by itself. */
function resourceOf({ serviceName }: TracingSettings) {
  const named = resourceFromAttributes({ 'service.name': 'gatehouse' });
  const detected = detectResources({ detectors: [envDetector] });
  const all = defaultResource().merge(named).merge(detected);
  return serviceName === undefined ? all : all.merge(resourceFromAttributes({ 'service.name': serviceName }));
}

function samplerOf({ sampler, ratio }: TracingSettings): Sampler {
  const root = sampler.endsWith('traceidratio')
    ? new TraceIdRatioBasedSampler(ratio)
    : sampler.endsWith('always_off')
      ? new AlwaysOffSampler()
      : new AlwaysOnSampler();
  return sampler.startsWith('parentbased') ? new ParentBasedSampler({ root }) : root;
}

/** The library tells nobody that spans were lost. */
function counted(exporter: SpanExporter, onExported: (outcome: 'sent' | 'lost', spans: number) => void): SpanExporter {
  return {
    export: (spans, done) =>
      exporter.export(spans, (result) => {
        onExported(result.code === ExportResultCode.SUCCESS ? 'sent' : 'lost', spans.length);
        done(result);
      }),
    shutdown: () => exporter.shutdown(),
    forceFlush: () => exporter.forceFlush?.() ?? Promise.resolve(),
  };
}
