/** Announces that a program is ready: as text on a terminal, otherwise as a log line, because the log is only JSON. */
import { createLogger, type LogDestination } from './logger.ts';

/**
 * The line is written at any `LOG_LEVEL`.
 * @param ready `text`: for the terminal. `msg` and `facts`: for the log
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
