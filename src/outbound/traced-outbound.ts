/** Owns what a tracer hears of outbound calls: one span for each, whose context goes along to the host that is called. */
import { type Outbound, OutboundError } from './outbound.ts';
import type { StreamedBody } from './streamed-answer.ts';

export interface CallSpan {
  /** Carry the context on (W3C Trace Context). */
  headers: Readonly<Record<string, string>>;
  answered(status: number): void;
  /** @param reason a code, never a text that may repeat what was sent */
  failed(reason: string): void;
  /** Whatever is told later, a second end included, counts for nothing. */
  end(): void;
}

/** Knows no path: those of BIN look-ups are digits, and a query may hold a code. */
export type BeginCall = (call: { method: string; origin: string }) => CallSpan;

/** The same span, of which the host that is called hears nothing. */
export function withoutContext(begin: BeginCall): BeginCall {
  return (call) => ({ ...begin(call), headers: {} });
}

/** The same calls, each with a span from its start until its whole answer is there or it has failed. */
export function tracedOutbound(outbound: Outbound, begin: BeginCall): Outbound {
  return {
    ...outbound,
    async fetch(url, init, limits) {
      // What is refused is no call.
      outbound.assertAllowed(url);
      const span = begin({ method: init.method ?? 'GET', origin: new URL(url).origin });
      try {
        const answer = await outbound.fetch(url, { ...init, headers: { ...init.headers, ...span.headers } }, limits);
        span.answered(answer.status);
        return answer;
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
        answer: call.answer.then(
          (answer) => {
            span.answered(answer.statusCode);
            return { ...answer, body: watchedBody(answer.body, span.end, fail) };
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
    take: (taker) =>
      body.take({
        write: taker.write,
        end() {
          end();
          taker.end();
        },
        fail(error) {
          fail(error);
          taker.fail(error);
        },
      }),
    resume: body.resume,
    destroy(error) {
      body.destroy(error);
      // Somebody has seen enough of it: the call itself has not failed.
      end();
    },
  };
}

function reasonOf(error: unknown): string {
  if (error instanceof OutboundError) return error.reason;
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'stopped';
}
