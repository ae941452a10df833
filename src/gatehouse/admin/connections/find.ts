/** Finds connections by the id in a path, a form or the search. */
import type { Connection } from '../../grants/connection.ts';
import type { Connections } from '../../grants/connections.ts';
import { splitId } from '../users/view.ts';

interface UserConnection {
  userId: string;
  connection: Connection;
}

/**
 * Returns a function that finds a connection by its id, or by `USER.APP`, the current connection of a user. Only the
 * second form contains a dot, and only it finds a connection that cannot be read.
 */
export function connectionFinder({ find, findById }: Pick<Connections, 'find' | 'findById'>) {
  return async (id: string): Promise<UserConnection | undefined> => {
    const { userId, rest: app } = splitId(id);
    if (userId === '') return findById(id);
    const connection = await find(userId, app);
    return connection && { userId, connection };
  };
}
