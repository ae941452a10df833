/** Owns why a start is refused, as a value: a process that is refused tells the same and ends with 78, and takes far longer. */
import { startGatehouse } from '../../src/start.ts';
import { StartRefused } from '../../src/start-refused.ts';

/** What is told of it, and what was logged before. @throws Error where a server of these settings starts */
export async function refusalOf(env: Record<string, string>): Promise<string> {
  const own = { ...env, PORT: '0', MANAGEMENT_PORT: '0' };
  let logged = '';
  const write = (text: string) => {
    logged += text;
  };
  const refused = await startGatehouse(own, { write }).then(
    (gatehouse) => gatehouse.close(),
    (error: unknown) => error,
  );
  if (!(refused instanceof StartRefused)) throw new Error('It was not refused.', { cause: refused });
  return `${refused.faults.join('\n')}\n${logged}`;
}
