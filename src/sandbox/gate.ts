/** Records every request to the sandbox, and applies the fault that matches it. */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { sendFault } from './fault-responses.ts';
import type { FaultBook } from './faults.ts';
import type { ListenerName } from './listeners.ts';
import type { RequestRecorder } from './recorded-requests.ts';
import { changeResponse } from './response-changes.ts';
import type { SigningKeys } from './signing-keys.ts';

interface Parts {
  requests: RequestRecorder;
  faults: FaultBook;
  signingKeys: SigningKeys;
  report: (error: unknown) => void;
}

export function createGate({ requests, faults, signingKeys, report }: Parts) {
  async function pass(listener: ListenerName, handle: RequestListener, req: IncomingMessage, res: ServerResponse) {
    const fault = faults.take(listener, req.method ?? 'GET', (req.url ?? '/').split('?')[0] ?? '/');
    if (fault !== undefined) {
      if (fault.kind === 'slow') await sleep(fault.ms, undefined, { ref: false });
      if (fault.kind === 'hold') await fault.until.catch(() => undefined);
      if (await sendFault(res, fault)) return;
      changeResponse(res, fault, signingKeys);
    }
    handle(req, res);
  }

  return function gated(listener: ListenerName, handle: RequestListener): RequestListener {
    return (req, res) => {
      requests.add(listener, req);
      pass(listener, handle, req, res).catch((error: unknown) => {
        report(error);
        res.destroy();
      });
    };
  };
}
