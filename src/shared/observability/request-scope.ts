/** Remembers to which request the running code belongs, for the lines that it logs. */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { RequestListener } from 'node:http';

/** Small on purpose: a connection that the request opens keeps it for its own lifetime. */
interface Scope {
  requestId: string | undefined;
}

export function createRequestScope() {
  const scopes = new AsyncLocalStorage<Scope>();
  return {
    around:
      (listener: RequestListener): RequestListener =>
      (req, res) =>
        scopes.run({ requestId: undefined }, listener, req, res),
    /** Names the current request. */
    begin(requestId: string): void {
      const scope = scopes.getStore();
      if (scope) scope.requestId = requestId;
    },
    /** The id of the current request; undefined in work of no request, such as a chore. */
    requestId: () => scopes.getStore()?.requestId,
  };
}
