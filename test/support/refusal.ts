/** Returns why a start is refused, faster than a process that reports the same and ends with 78. */

import { startGatehouse } from '../../src/gatehouse/start.ts';
import { StartRefused } from '../../src/shared/errors.ts';

/** Returns the message and the log. @throws Error if a server with these settings starts, or fails in another way */
export async function refusalOf(env: Record<string, string>): Promise<string> {
  const { isRefusal, text } = await failureOf(env);
  if (!isRefusal) throw new Error('The start was not refused.', { cause: text });
  return text;
}

/** The same for a start that fails for any reason. A process would end with 78 for a refusal, and with 1 otherwise. */
export async function failureOf(env: Record<string, string>): Promise<{ isRefusal: boolean; text: string }> {
  const settings = { ...env, PORT: '0', MANAGEMENT_PORT: '0' };
  let logged = '';
  const write = (line: string) => {
    logged += line;
  };
  const failure = await startGatehouse(settings, { write }).then(
    (gatehouse) => gatehouse.close(),
    (error: unknown) => error,
  );
  if (!(failure instanceof Error)) throw new Error('The server started.');
  return { isRefusal: failure instanceof StartRefused, text: `${failure.message}\n${logged}` };
}
