/** Reads `/readyz` of the process on this machine. */
import { z } from 'zod';
import { hostAndPort } from '../../shared/config/rules.ts';
import { parseJson } from '../../shared/json.ts';

const TIMEOUT_MS = 3_000;

const readyzBody = z.object({ ready: z.boolean(), reason: z.string().optional() });

/** `ready` is null if something responds, but not as this version does: another version, or another program. */
export interface Readiness {
  ready: boolean | null;
  reason?: string | undefined;
}

/** Null if nothing responds there. */
export async function readReadiness(management: { host: string; port: number }): Promise<Readiness | null> {
  try {
    const url = `http://${hostAndPort(management)}/readyz`;
    const response = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS) });
    return readyzBody.safeParse(parseJson(await response.text())).data ?? { ready: null };
  } catch {
    return null;
  }
}
