/** Adds a span to each outbound call, and sends its trace context to the host. */
import type { Outbound } from './outbound.ts';
import { OutboundError } from './outbound-error.ts';
import type { StreamedBody } from './streamed-response.ts';

export interface CallSpan {
  /** The trace context (W3C Trace Context). */
  headers: Readonly<Record<string, string>>;
  answered(status: number): void;
  /** @param reason a code, never a text, which might repeat what was sent */
  failed(reason: string): void;
  /** Later calls of any method are ignored. */
  end(): void;
}

/** Starts a span. Without the path: that of a BIN look-up holds digits, and a query may hold a code. */
export type BeginCall = (call: { method: string; origin: string }) => CallSpan;

/** Each span lasts from the start of the call until the whole response has arrived, or the call has failed. */
export function tracedOutbound(outbound: Outbound, begin: BeginCall): Outbound {
  return {
    ...outbound,
    async fetch(url, init, limits) {
      // A refused URL makes no span.
      outbound.assertAllowed(url);
      const span = begin({ method: init.method ?? 'GET', origin: new URL(url).origin });
      try {
        const headers = init.untraced ? init.headers : { ...init.headers, ...span.headers };
        const response = await outbound.fetch(url, { ...init, headers }, limits);
        span.answered(response.status);
        return response;
      } catch (error) {
        span.failed(reasonOf(error));
        throw error;
      } finally {
        span.end();
      }
    },
    stream(target, headers) {
      const span = begin({ method: 'GET', origin: target.origin });
      const call = outbound.stream(target, [...headers, ...Object.entries(span.headers).flat()]);
      const fail = (error: unknown) => {
        span.failed(reasonOf(error));
        span.end();
      };
      return {
        response: call.response.then(
          (response) => {
            span.answered(response.statusCode);
            return { ...response, body: watchedBody(response.body, span.end, fail) };
          },
          (error: unknown) => {
            fail(error);
            throw error;
          },
        ),
        destroy(error) {
          call.destroy(error);
          fail(error);
        },
      };
    },
  };
}

function watchedBody(body: StreamedBody, end: () => void, fail: (error: Error) => void): StreamedBody {
  return {
    whole() {
      const all = body.whole();
      if (all) end();
      return all;
    },
    take: (sink) =>
      body.take({
        write: sink.write,
        end() {
          end();
          sink.end();
        },
        fail(error) {
          fail(error);
          sink.fail(error);
        },
      }),
    resume: body.resume,
    destroy(error) {
      body.destroy(error);
      // The reader has seen enough; the call itself has not failed.
      end();
    },
  };
}

function reasonOf(error: unknown): string {
  if (error instanceof OutboundError) return error.reason;
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'stopped';
}
