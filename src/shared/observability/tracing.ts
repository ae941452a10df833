/** Sends a span for each request and each outbound call to a collector. This module is loaded only if tracing is on. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
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
  RandomIdGenerator,
  type Sampler,
  type SpanExporter,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import type { TracingSettings } from '../config/config.ts';
import { VERSION } from '../version.ts';
import { containsCardNumber } from './card-numbers.ts';

export interface Tracing {
  /** Adds a span to each request; spans of outbound calls become its children. */
  around(listener: RequestListener): RequestListener;
  /** Returns the id of the current request's trace. */
  traceId(): string | undefined;
  /** Starts the span of an outbound call as a child of the request's span. */
  beginCall(call: { method: string; origin: string }): CallSpan;
  /** Sets the headers for spans that are sent from now on. */
  useHeaders(headers: TracingSettings['headers']): void;
  /** Sends the remaining spans, for at most 3 s. */
  close(): Promise<void>;
}

interface CallSpan {
  /** Headers with the trace context for the host (W3C Trace Context). */
  headers: Readonly<Record<string, string>>;
  responded(status: number): void;
  /** @param failure the reason, if the call ended before its response did */
  end(failure?: string): void;
}

const MAX_CLOSE_MS = 3_000;

/**
 * Creates the tracing of a process. Registers nothing globally: this module stores the context of a request.
 * @param parts `factsOf`: the route and id of a request, read when it ends. `onExported`: called with the number of
 *   spans that were sent or lost
 */
export function createTracing(parts: {
  settings: TracingSettings;
  factsOf: (req: IncomingMessage) => { route: string; id: string } | undefined;
  onExported: (outcome: 'sent' | 'lost', spans: number) => void;
}): Tracing {
  const { settings, factsOf } = parts;
  let { headers: exportHeaders } = settings;
  const exporter = new OTLPTraceExporter({
    url: `${settings.endpoint}/v1/traces`,
    // A function, because the headers may be replaced.
    headers: async () => ({ ...exportHeaders }),
  });
  const provider = new TracerProvider({
    resource: resourceOf(settings),
    sampler: samplerOf(settings),
    idGenerator: new UnscrubbedIdGenerator(),
    spanProcessors: [new BatchSpanProcessor({ exporter: countSpans(exporter, parts.onExported) })],
  });
  const tracer = provider.getTracer('gatehouse');
  const propagator = new W3CTraceContextPropagator();
  const contexts = new AsyncLocalStorage<Context>();

  /** Ignores `tracestate` and `baggage`, because any caller can send them, with any content. */
  const contextOf = ({ headers: { traceparent } }: IncomingMessage): Context =>
    typeof traceparent === 'string' && !containsCardNumber(traceparent)
      ? propagator.extract(ROOT_CONTEXT, { traceparent }, defaultTextMapGetter)
      : ROOT_CONTEXT;

  return {
    around: (listener) => (req, res) => {
      const method = req.method ?? '';
      const attributes = { 'http.request.method': method };
      const parent = contextOf(req);
      const span = tracer.startSpan(method, { kind: SpanKind.SERVER, attributes }, parent);
      res.on('close', () => {
        const facts = factsOf(req);
        // The route is 'none' if no route matched.
        if (facts && facts.route !== 'none') {
          span.updateName(`${method} ${facts.route}`).setAttribute('http.route', facts.route);
        }
        if (facts) span.setAttribute('gatehouse.request_id', facts.id);
        setStatus(span, res.statusCode, 500);
        if (!res.writableFinished) span.setAttribute('error.type', 'caller_gone');
        span.end();
      });
      contexts.run(trace.setSpan(parent, span), () => listener(req, res));
    },
    traceId: () => trace.getSpanContext(contexts.getStore() ?? ROOT_CONTEXT)?.traceId,
    beginCall({ method, origin }) {
      const parent = contexts.getStore() ?? ROOT_CONTEXT;
      const { hostname, port, protocol } = new URL(origin);
      const attributes = {
        'http.request.method': method,
        'server.address': hostname,
        'server.port': Number(port) || (protocol === 'https:' ? 443 : 80),
      };
      const span = tracer.startSpan(`${method} ${hostname}`, { kind: SpanKind.CLIENT, attributes }, parent);
      const headers: Record<string, string> = {};
      propagator.inject(trace.setSpan(parent, span), headers, defaultTextMapSetter);
      let hasEnded = false;
      return {
        headers,
        responded: (status) => setStatus(span, status, 400),
        end(failure) {
          if (hasEnded) return;
          hasEnded = true;
          if (failure !== undefined) setError(span, failure);
          span.end();
        },
      };
    },
    useHeaders(headers) {
      exportHeaders = headers;
    },
    async close() {
      const timeout = new Promise<void>((resolve) => setTimeout(resolve, MAX_CLOSE_MS).unref());
      // A collector that does not respond must not delay the stop. Its spans count as lost.
      await Promise.race([provider.shutdown().catch(() => undefined), timeout]);
    },
  };
}

/** @param errorsFrom the lowest status that is an error for a server or a client (OpenTelemetry HTTP conventions) */
function setStatus(span: Span, status: number, errorsFrom: 400 | 500): void {
  span.setAttribute('http.response.status_code', status);
  if (status >= errorsFrom) setError(span, String(status));
}

function setError(span: Span, type: string): void {
  span.setStatus({ code: SpanStatusCode.ERROR }).setAttribute('error.type', type);
}

/** Includes `OTEL_RESOURCE_ATTRIBUTES`, which `envDetector` reads. */
function resourceOf({ serviceName }: TracingSettings) {
  const defaults = resourceFromAttributes({
    'service.name': 'gatehouse',
    'service.version': VERSION,
    // Each process has a new id (OpenTelemetry resource conventions).
    'service.instance.id': randomUUID(),
  });
  const detected = detectResources({ detectors: [envDetector] });
  const resource = defaultResource().merge(defaults).merge(detected);
  return serviceName === undefined ? resource : resource.merge(resourceFromAttributes({ 'service.name': serviceName }));
}

/** Generates only trace ids that the log does not scrub (R86), so that a search finds their lines. */
class UnscrubbedIdGenerator extends RandomIdGenerator {
  override generateTraceId(): string {
    let id = super.generateTraceId();
    while (containsCardNumber(id)) id = super.generateTraceId();
    return id;
  }
}

function samplerOf({ sampler, ratio }: TracingSettings): Sampler {
  const root = sampler.endsWith('traceidratio')
    ? new TraceIdRatioBasedSampler(ratio)
    : sampler.endsWith('always_off')
      ? new AlwaysOffSampler()
      : new AlwaysOnSampler();
  return sampler.startsWith('parentbased') ? new ParentBasedSampler({ root }) : root;
}

/** Counts sent and lost spans, because the library does not report lost ones. */
function countSpans(
  exporter: SpanExporter,
  onExported: (outcome: 'sent' | 'lost', spans: number) => void,
): SpanExporter {
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
