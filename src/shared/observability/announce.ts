/** Says that a program is ready: in words at a terminal, otherwise as a line of the log, which is JSON only. */
import { createLogger, type LogDestination } from './logger.ts';

/**
 * The line is written at any `LOG_LEVEL`.
 * @param ready `text`: for a person. `msg` and `facts`: for the log
 */
export async function announce(
  ready: { text: string; msg: string; facts: object },
  output: { isTTY: boolean; write(text: string): unknown },
  logs: LogDestination & { flush(): Promise<void> },
): Promise<void> {
  if (output.isTTY) {
    output.write(ready.text);
    return;
  }
  createLogger({ level: 'info', destination: logs }).info(ready.facts, ready.msg);
  await logs.flush();
}
