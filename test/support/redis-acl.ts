/** The users of Redis and of sentinels that `docs/deploy.md` describes. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RedisServer } from './redis-server.ts';

const PASSWORD = 'redis-password-of-tests';
const DOCUMENT = join(import.meta.dirname, '../../docs/deploy.md');

/** Creates the documented user, with these changes of its rules, and returns the URL with its credentials. */
export function createDocumentedUser(server: RedisServer, ...changes: string[]): string {
  const [, rules = ''] = /^user gatehouse (.*)$/m.exec(readFileSync(DOCUMENT, 'utf8')) ?? [];
  setUser(server, [...rules.replace('>PASSWORD', `>${PASSWORD}`).split(' '), ...changes]);
  return server.url.replace('redis://', `redis://gatehouse:${PASSWORD}@`);
}

/** Creates the documented user of a sentinel, with these changes of its rules, and returns its credentials. */
export function createSentinelUser(sentinel: RedisServer, ...changes: string[]) {
  const [, rules = ''] =
    /^.*If sentinels have users, theirs needs `([^`]+)`/m.exec(readFileSync(DOCUMENT, 'utf8')) ?? [];
  setUser(sentinel, ['on', `>${PASSWORD}`, ...rules.split(' '), ...changes]);
  return { username: 'gatehouse', password: PASSWORD };
}

function setUser(server: RedisServer, rules: string[]): void {
  const response = server.sendCommand('ACL', 'SETUSER', 'gatehouse', 'reset', ...rules);
  if (response.trim() !== 'OK') throw new Error(`Redis does not accept the documented user: ${response}`);
}
