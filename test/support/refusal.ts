/** Returns why a start is refused. A process reports the same and ends with 78, but takes far longer. */

import { startGatehouse } from '../../src/gatehouse/start.ts';
import { StartRefused } from '../../src/shared/errors.ts';

/** What is told of it, and what was logged before. @throws Error where a server of these settings starts, or fails otherwise */
export async function refusalOf(env: Record<string, string>): Promise<string> {
  const { isRefusal, told } = await failureOf(env);
  if (!isRefusal) throw new Error('It was not refused.', { cause: told });
  return told;
}

/** The same of a start that fails for any reason: a process ends with 78 where it is a refusal, and with 1 otherwise. */
export async function failureOf(env: Record<string, string>): Promise<{ isRefusal: boolean; told: string }> {
  const own = { ...env, PORT: '0', MANAGEMENT_PORT: '0' };
  let logged = '';
  const write = (text: string) => {
    logged += text;
  };
  const failure = await startGatehouse(own, { write }).then(
    (gatehouse) => gatehouse.close(),
    (error: unknown) => error,
  );
  if (!(failure instanceof Error)) throw new Error('It started.');
  return { isRefusal: failure instanceof StartRefused, told: `${failure.message}\n${logged}` };
}
