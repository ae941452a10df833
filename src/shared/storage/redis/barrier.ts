/** A barrier between two connections: no command of the first one is executed after the next one has begun. */
import type { Redis } from 'ioredis';

/**
 * Tells the server to end the former connection before anything is sent on the new one. A write that has timed out may still
 * lie in a socket, and would overwrite later writes. A server that has ended the connection drops it. The address must match
 * as well, because another server (or the same one after a restart) uses the same ids again. If the server does not allow
 * CLIENT, a late write is executed late.
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
