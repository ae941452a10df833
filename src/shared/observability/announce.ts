/** Announces a state of a program: as text on a terminal, otherwise as a log line, because the log is only JSON. */
import { createLogger, type LogDestination } from './logger.ts';

/**
 * Writes the announcement at any `LOG_LEVEL`.
 * @param ready `text`: the text for the terminal. `msg` and `facts`: the message and the fields of the log line
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
