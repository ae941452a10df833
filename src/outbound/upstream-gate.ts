/** Owns how many calls go to one host at a time, and how many more may wait for their turn: whoever comes beyond that is refused at once (R89). */
import type { Dispatcher } from 'undici';

export interface UpstreamLimits {
  /** Calls to one host at a time. */
  concurrency: number;
  /** Calls to one host that wait for their turn. */
  waiting: number;
}

/** Calls of all hosts together. */
export interface UpstreamLoad {
  running: number;
  waiting: number;
}

export interface UpstreamGate {
  /** Answers what is to be called when nothing more comes of the call, or undefined where there is no room for it. */
  enter(origin: string): (() => void) | undefined;
  /** Lets calls in that are dispatched by undici itself. */
  interceptor: Dispatcher.DispatcherComposeInterceptor;
  load(): UpstreamLoad;
}

/**
 * The pools hold as many connections as calls may run, so what is beyond them waits there.
 * @param parts `refuse`: what a call fails with for which there is no room
 */
export function createUpstreamGate(parts: { limits: UpstreamLimits; refuse: () => Error }): UpstreamGate {
  const { concurrency, waiting } = parts.limits;
  const calls = new Map<string, number>();

  const enter = (origin: string): (() => void) | undefined => {
    const others = calls.get(origin) ?? 0;
    if (others >= concurrency + waiting) return undefined;
    calls.set(origin, others + 1);
    let over = false;
    return () => {
      if (over) return;
      over = true;
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
      // No controller: nothing has begun that could be aborted.
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

/** The same handler; `ended` is called when nothing more comes. */
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
