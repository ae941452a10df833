/** What Redis must allow its user (ACL), and what a refusal says is missing. */
import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import { AppError } from '../../errors.ts';
import { StorageRefused } from '../refused.ts';
import type { RedisNames } from './names.ts';

/**
 * The commands of the store and of its scripts. `{key}` and `{channel}` are names that nothing else uses. Commands that
 * the store can do without are left out: MGET and CLIENT.
 */
const COMMANDS = [
  ...['APPEND {key} 1', 'DEL {key}', 'GET {key}', 'GETRANGE {key} 0 1', 'INCRBY {key} 1', 'PEXPIRE {key} 1'],
  ...['PEXPIRETIME {key}', 'SET {key} 1', 'SETRANGE {key} 0 1', 'TYPE {key}', 'UNLINK {key}'],
  ...['HGET {key} 1', 'HMGET {key} 1', 'HSET {key} 1 1'],
  ...['XADD {key} * 1 1', 'XDEL {key} 0-1', 'XLEN {key}', 'XRANGE {key} - +', 'XREVRANGE {key} + -'],
  ...['ZADD {key} 1 1', 'ZCARD {key}', 'ZCOUNT {key} 0 1', 'ZRANGE {key} 0 1', 'ZREM {key} 1'],
  ...['PUBLISH {channel} 1', 'SUBSCRIBE {channel}', 'UNSUBSCRIBE', 'EVALSHA 1 0', 'PING', 'SCAN 0', 'TIME'],
];

/** Further commands that some stores need. */
export const CLUSTER_COMMANDS = ['CLUSTER INFO', 'CLUSTER NODES', 'CLUSTER SLOTS'];
export const REPLICA_COMMANDS = ['WAIT 0 1'];

type Run = <T>(command: () => Promise<T>) => Promise<T>;

/** ARGV: commands. Returns those that the user may not run. Redis has `acl_check_cmd` from version 7.0 on. */
const CHECK = `
local refused = {}
if not redis.acl_check_cmd then return refused end
for _, command in ipairs(ARGV) do
  local words = {}
  for word in string.gmatch(command, '%S+') do words[#words + 1] = word end
  local isKnown, isAllowed = pcall(redis.acl_check_cmd, unpack(words))
  if isKnown and not isAllowed then refused[#refused + 1] = command end
end
return refused
`;

/** Redis reports a command that its user must not run with `NOPERM`, and within a script with `ERR`. */
const DENIED = /^(NOPERM\b|ERR (ACL failure in script|The user executing the script can't))/;

/** Returns true if Redis refused a command because of its ACL. */
export function isDenied(error: unknown): error is Error {
  return error instanceof Error && error.name === 'ReplyError' && DENIED.test(error.message);
}

/**
 * Describes what the user of Redis lacks, without names of keys, which may contain ids of users.
 * @param prefix of all keys and channels of the store. Without it, the text has no pattern for keys and channels
 */
export function deniedWords({ message }: Error, prefix?: string): string {
  const command = /\brun the '([\w|-]+)' command/.exec(message)?.[1];
  if (command !== undefined) return `the command ${command.toUpperCase().replace('|', ' ')} (ACL +${command})`;
  if (/\bchannels?\b/.test(message)) return channelWords(prefix);
  if (!/\bkeys?\b/.test(message)) return 'a command';
  return prefix === undefined ? 'its keys' : `its keys (ACL ~${prefix}*)`;
}

const channelWords = (prefix?: string) => (prefix === undefined ? 'its channels' : `its channels (ACL &${prefix}*)`);

/** Returns the refusal of Redis that is the error or its cause. */
function deniedCause(error: unknown): Error | undefined {
  const cause = error instanceof AppError ? error.cause : error;
  return isDenied(cause) ? cause : undefined;
}

/** Returns the error to throw for a command that holds no data. @param server the beginning of a sentence */
export function asRefusedPermission(error: unknown, server: string): unknown {
  const denied = deniedCause(error);
  return denied ? permissionRefused(server, [deniedWords(denied)], denied) : error;
}

function permissionRefused(server: string, missing: readonly string[], denied: Error | undefined): StorageRefused {
  const quote = denied ? ` It says: ${denied.message}.` : '';
  return new StorageRefused(
    `${server} does not allow its user ${missing.join(', ')}.${quote} Give the user the permissions of docs/deploy.md.`,
    denied,
  );
}

/**
 * Checks that the user of Redis may do all that the store does, since a missing permission would otherwise show itself
 * only at the first call that needs it.
 * @param parts `serverName`: the beginning of a sentence. `further`: commands that not every store needs
 * @throws StorageRefused
 */
export async function assertPermitted(parts: {
  run: Run;
  server: Redis;
  serverName: string;
  names: Pick<RedisNames, 'of'>;
  further: readonly string[];
}): Promise<void> {
  const { run, server, serverName, names, further } = parts;
  const prefix = names.of('');
  const unusedName = names.of(`~permissions:${randomUUID()}`);
  const commands = [...COMMANDS, ...further].map((command) => command.replace(/\{(key|channel)\}/, unusedName));
  const refusedCommands = await run(() => server.call('EVAL', CHECK, 0, ...commands)).catch((error: unknown) =>
    Promise.reject(asRefusedPermission(error, serverName)),
  );
  if (!Array.isArray(refusedCommands) || refusedCommands.length === 0) return;

  const missing = new Map<string, Error | undefined>();
  for (const command of refusedCommands.map(String)) {
    const [name = '', ...words] = command.split(' ');
    // A connection that has subscribed can send nothing else, so this command is not sent.
    const denied = name === 'SUBSCRIBE' ? undefined : await denialOf(run, () => server.call(name, ...words));
    const commandWords = `the command ${name} (ACL +${name.toLowerCase()})`;
    if (denied) missing.set(deniedWords(denied, prefix), denied);
    else if (!missing.has(channelWords(prefix))) missing.set(commandWords, undefined);
  }
  throw permissionRefused(serverName, [...missing.keys()], [...missing.values()].find(Boolean));
}

/** Sends a refused command, since only its refusal says whether the command, the key or the channel is missing. */
function denialOf(run: Run, command: () => Promise<unknown>): Promise<Error | undefined> {
  return run(command).then(() => undefined, deniedCause);
}
