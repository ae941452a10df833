/** The barrier between two connections: what the former one still had under way is not done after the next has begun. */

import type { Redis } from 'ioredis';

/**
 * Lets the server end the former connection before anything is asked on the new one. A write that was given up may still
 * lie in a socket, and would be done later, over what was read or written since; a server that ended the connection drops
 * it. The address has to match too, since another server (or the same after a restart) gives the same numbers again.
 * A server that does not allow CLIENT is not asked again: then a late write is done late.
 */
export function fenceConnections(client: Redis): void {
  let former: { id: string; address: string } | undefined;
  client.on('ready', () => {
    if (former) client.call('CLIENT', 'KILL', 'ID', former.id, 'ADDR', former.address).catch(ignore);
    former = undefined;
    client.call('CLIENT', 'INFO').then((info) => {
      const [, id, address] = /^id=(\d+) addr=(\S+)/.exec(String(info)) ?? [];
      if (id && address) former = { id, address };
    }, ignore);
  });
}

function ignore(): void {}
