/** Reads `/readyz` of the process on this machine. */
import { z } from 'zod';
import { hostAndPort } from '../config/rules.ts';
import { parseJson } from '../json.ts';

const TIMEOUT_MS = 3_000;

const readyzBody = z.object({ ready: z.boolean(), reason: z.string().optional() });

export type Readiness = z.output<typeof readyzBody>;

/** Null if nothing responds there as `/readyz` does. */
export async function readReadiness(management: { host: string; port: number }): Promise<Readiness | null> {
  try {
    const url = `http://${hostAndPort(management)}/readyz`;
    const response = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS) });
    return readyzBody.safeParse(parseJson(await response.text())).data ?? null;
  } catch {
    return null;
  }
}
