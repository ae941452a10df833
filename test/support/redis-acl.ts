/** The user of Redis that `docs/deploy.md` describes. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RedisServer } from './redis-server.ts';

const PASSWORD = 'redis-password-of-tests';
const DOCUMENT = join(import.meta.dirname, '../../docs/deploy.md');

/** Creates the documented user, with these changes of its rules, and returns the URL with its credentials. */
export function createDocumentedUser(server: RedisServer, ...changes: string[]): string {
  const [, rules = ''] = /^user gatehouse (.*)$/m.exec(readFileSync(DOCUMENT, 'utf8')) ?? [];
  const documented = rules.replace('>PASSWORD', `>${PASSWORD}`).split(' ');
  const response = server.sendCommand('ACL', 'SETUSER', 'gatehouse', 'reset', ...documented, ...changes);
  if (response.trim() !== 'OK') throw new Error(`Redis does not accept the documented user: ${response}`);
  return server.url.replace('redis://', `redis://gatehouse:${PASSWORD}@`);
}
