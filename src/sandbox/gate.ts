/** Counts every request of the sandbox and applies faults to it. */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { sendFault } from './fault-responses.ts';
import type { FaultBook } from './faults.ts';
import type { RecordedHits } from './hits.ts';
import type { ListenerName } from './listeners.ts';
import { changeResponse } from './response-changes.ts';
import type { SigningKeys } from './signing-keys.ts';

interface Parts {
  hits: RecordedHits;
  faults: FaultBook;
  signingKeys: SigningKeys;
  report: (error: unknown) => void;
}

export function createGate({ hits, faults, signingKeys, report }: Parts) {
  async function pass(on: ListenerName, handle: RequestListener, req: IncomingMessage, res: ServerResponse) {
    const fault = faults.take(on, req.method ?? 'GET', (req.url ?? '/').split('?')[0] ?? '/');
    if (fault !== undefined) {
      if (fault.kind === 'slow') await sleep(fault.ms, undefined, { ref: false });
      if (fault.kind === 'hold') await fault.until.catch(() => undefined);
      if (await sendFault(res, fault)) return;
      changeResponse(res, fault, signingKeys);
    }
    handle(req, res);
  }

  return function gated(on: ListenerName, handle: RequestListener): RequestListener {
    return (req, res) => {
      hits.add(on, req);
      pass(on, handle, req, res).catch((error: unknown) => {
        report(error);
        res.destroy();
      });
    };
  };
}
