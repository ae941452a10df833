/** Ends the connections on which Redis is silent, so that commands are refused at once until it answers again. */

import type { Redis } from 'ioredis';
import { createDeadlines, type Deadlines } from './deadlines.ts';

export interface SilenceWatch {
  /** A command has passed its deadline: ends at once the connections on which a ping is not answered either. */
  check(): void;
  stop(): void;
}

const HEARTBEAT_MILLISECONDS = 1_000;
const CHECK_MILLISECONDS = 50;
/** A server that took the connection but is frozen answers nothing: the next attempt may find another server. */
const HANDSHAKE_MILLISECONDS = 1_000;

/**
 * A connection that ends fails the commands under way on it, and the store refuses all others until a new one is ready,
 * which takes an answer from the server: the connection is the circuit breaker. The heartbeat finds a connection that died
 * while no command waited for it.
 */
export function watchSilence(nodes: () => readonly Redis[], deadlines: Deadlines): SilenceWatch {
  const soon = createDeadlines(CHECK_MILLISECONDS);
  const ping = (within: Deadlines) => {
    for (const node of nodes()) {
      if (node.status !== 'ready') continue;
      const { stream } = node;
      // An error is an answer, too.
      within.bound(node.ping().catch(() => undefined)).catch(() => stream.destroy());
    }
  };
  let checking: NodeJS.Timeout | undefined;
  const heartbeat = setInterval(() => ping(deadlines), HEARTBEAT_MILLISECONDS).unref();
  return {
    check() {
      // One check serves all commands that pass their deadline meanwhile.
      if (checking) return;
      ping(soon);
      checking = setTimeout(() => {
        checking = undefined;
      }, CHECK_MILLISECONDS).unref();
    },
    stop() {
      clearInterval(heartbeat);
      clearTimeout(checking);
    },
  };
}

/** Ends a connection whose server does not answer the first commands, which have no deadline of their own. */
export function cutStuckHandshakes(client: Redis): void {
  const deadlines = createDeadlines(HANDSHAKE_MILLISECONDS);
  let settle = () => {};
  client.on('connect', () => {
    const { stream } = client;
    const settled = new Promise<void>((resolve) => {
      settle = resolve;
    });
    deadlines.bound(settled).catch(() => stream.destroy());
  });
  for (const event of ['ready', 'close'] as const) client.on(event, () => settle());
}
