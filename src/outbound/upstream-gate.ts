/** Limits the calls that run and wait for each host; further calls are refused at once (R89). */
import type { Dispatcher } from 'undici';

export interface UpstreamLimits {
  /** Calls to one host at a time. */
  concurrency: number;
  /** Calls to one host that wait for a connection. */
  waiting: number;
}

/** Calls to all hosts. */
export interface UpstreamLoad {
  running: number;
  waiting: number;
}

export interface UpstreamGate {
  /** Returns a function to call once the call has ended, or undefined where there is no room for the call. */
  enter(origin: string): (() => void) | undefined;
  /** Applies the limits to calls that undici dispatches. */
  interceptor: Dispatcher.DispatcherComposeInterceptor;
  load(): UpstreamLoad;
}

/**
 * Only counts: each pool has `concurrency` connections, so further calls wait in the pool.
 * @param parts `refuse`: makes the error of a call for which there is no room
 */
export function createUpstreamGate(parts: { limits: UpstreamLimits; refuse: () => Error }): UpstreamGate {
  const { concurrency, waiting } = parts.limits;
  const calls = new Map<string, number>();

  const enter = (origin: string): (() => void) | undefined => {
    const others = calls.get(origin) ?? 0;
    if (others >= concurrency + waiting) return undefined;
    calls.set(origin, others + 1);
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      const left = (calls.get(origin) ?? 1) - 1;
      if (left > 0) calls.set(origin, left);
      else calls.delete(origin);
    };
  };

  return {
    enter,
    interceptor: (dispatch) => (options, handler) => {
      const leave = enter(String(options.origin));
      if (leave) return dispatch(options, untilEnded(handler, leave));
      // There is no controller, since no call has started.
      handler.onResponseError?.(null as never, parts.refuse());
      return false;
    },
    load() {
      const all = [...calls.values()];
      const running = all.reduce((sum, count) => sum + Math.min(count, concurrency), 0);
      return { running, waiting: all.reduce((sum, count) => sum + count, 0) - running };
    },
  };
}

/** Calls `ended` once the response is complete or has failed. */
function untilEnded(handler: Dispatcher.DispatchHandler, ended: () => void): Dispatcher.DispatchHandler {
  return {
    onRequestStart: (controller, context) => handler.onRequestStart?.(controller, context),
    onResponseStart: (controller, status, headers, message) =>
      handler.onResponseStart?.(controller, status, headers, message),
    onResponseData: (controller, chunk) => handler.onResponseData?.(controller, chunk),
    onResponseEnd(controller, trailers) {
      ended();
      handler.onResponseEnd?.(controller, trailers);
    },
    onResponseError(controller, error) {
      ended();
      handler.onResponseError?.(controller, error);
    },
  };
}
