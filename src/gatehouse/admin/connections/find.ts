/** Finds the connection that a path, a form or the search names. */
import type { Connection } from '../../grants/connection.ts';
import type { Connections } from '../../grants/connections.ts';
import { splitId } from '../users/view.ts';

export interface FoundConnection {
  userId: string;
  connection: Connection;
}

/**
 * Takes the id of the connection, or `USER.APP` for the one that the user has now. The dot, which no id of a connection has, tells
 * them apart. One that cannot be read is found by the latter alone.
 */
export function connectionFinder({ find, findById }: Pick<Connections, 'find' | 'findById'>) {
  return async (name: string): Promise<FoundConnection | undefined> => {
    const { userId, rest: app } = splitId(name);
    if (userId === '') return findById(name);
    const connection = await find(userId, app);
    return connection && { userId, connection };
  };
}
