/** Asks the process on this machine whether it is ready. */
import { z } from 'zod';
import { hostAndPort } from '../config/rules.ts';
import { parseJson } from '../json.ts';

const PATIENCE_MS = 3_000;

const said = z.object({ ready: z.boolean(), reason: z.string().optional() });

export type Readiness = z.output<typeof said>;

/** Null if nothing responds there as `/readyz` does. */
export async function readReadiness(management: { host: string; port: number }): Promise<Readiness | null> {
  try {
    const url = `http://${hostAndPort(management)}/readyz`;
    const response = await fetch(url, { signal: AbortSignal.timeout(PATIENCE_MS) });
    return said.safeParse(parseJson(await response.text())).data ?? null;
  } catch {
    return null;
  }
}
