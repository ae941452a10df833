/** Ends connections on which Redis is silent, so that commands are refused at once until it responds again. */
import type { Redis } from 'ioredis';
import { withDeadline } from './deadlines.ts';

const HEARTBEAT_MS = 1_000;
const CHECK_MS = 50;

/**
 * Watches connections, which work as circuit breakers. When a connection ends, its running commands fail, and the store
 * refuses all others until a new connection is ready, which requires a response from the server. The heartbeat detects
 * a connection that died while no command was waiting.
 */
export function watchSilence(nodes: () => readonly Redis[], deadlineMilliseconds: number) {
  const ping = (milliseconds: number) => {
    for (const node of nodes()) {
      if (node.status !== 'ready') continue;
      const { stream } = node;
      // An error of the server is a response, too.
      withDeadline(
        node.ping().catch(() => undefined),
        milliseconds,
      ).catch(() => stream.destroy());
    }
  };
  let checkTimer: NodeJS.Timeout | undefined;
  const heartbeat = setInterval(() => ping(deadlineMilliseconds), HEARTBEAT_MS).unref();
  return {
    /**
     * To be called when a command exceeds its deadline. Ends the connections on which a ping gets no response within 50
     * ms.
     */
    check() {
      // One check serves all commands that expire in the meantime.
      if (checkTimer) return;
      ping(CHECK_MS);
      checkTimer = setTimeout(() => {
        checkTimer = undefined;
      }, CHECK_MS).unref();
    },
    stop() {
      clearInterval(heartbeat);
      clearTimeout(checkTimer);
    },
  };
}

/**
 * Ends a connection whose server does not respond to one of the first commands, which have no deadline of their own. A
 * frozen server may accept the connection but never respond, and the next attempt may reach another server.
 * @param milliseconds time limit for each response
 */
export function cutStuckHandshakes(client: Redis, milliseconds: number): void {
  let timer: NodeJS.Timeout | undefined;
  const end = () => timer && client.stream.destroy(tooLate());
  const wait = () => {
    clearTimeout(timer);
    timer = setTimeout(() => setImmediate(end), milliseconds);
  };
  client.on('connect', () => {
    wait();
    client.stream.on('data', () => timer && wait());
  });
  for (const event of ['ready', 'close'] as const) {
    client.on(event, () => {
      clearTimeout(timer);
      timer = undefined;
    });
  }
}

function tooLate(): Error {
  return Object.assign(new Error('Redis did not respond to the handshake in time'), { code: 'ETIMEDOUT' });
}
