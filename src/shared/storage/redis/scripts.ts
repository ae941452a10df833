/** The Lua scripts of the Redis store. Each is one atomic step and names all its keys, which are in one slot. */
import type { Cluster, Redis } from 'ioredis';

/**
 * Versions and fencing numbers are the server's time in microseconds, or one more than the key's last number if that is
 * higher. So they exceed even numbers that a failover or a restored backup has lost, because the clocks of two servers
 * differ by less than the duration of a failover. A counter in Redis would repeat such numbers. When a record is
 * deleted, the tag's floor keeps its version for ten minutes after that time, so that versions do not repeat if the
 * clock is set back.
 */
const CLOCK = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function text(number) return string.format('%.0f', number) end
`;

/**
 * KEYS: the tag's floor, the fence's lease (or the floor again), the keys of the steps. ARGV: the fence's number or
 * empty; then five for each step: kind, position of its key, required version or score, lifetime in milliseconds (or
 * empty, or `unchanged`), value or member. All keys are read before the first one is changed, so that a key of another
 * kind fails the script before there is anything to undo.
 */
const WRITE = `${CLOCK}
local function versionOf(key)
  return tonumber(string.match(redis.call('GETRANGE', key, 0, 16), '^(%d+):')) or 0
end
local function floor() return tonumber(redis.call('GET', KEYS[1]) or 0) end
local function remember(version)
  local highest = math.max(version, floor())
  local ahead = math.ceil(math.max(0, highest - now) / 1000)
  redis.call('SET', KEYS[1], text(highest), 'PX', text(ahead + 600000))
end
if ARGV[1] ~= '' and redis.call('HGET', KEYS[2], 'number') ~= ARGV[1] then return false end
local versions, version = {}, now
for i = 2, #ARGV, 5 do
  local key = KEYS[tonumber(ARGV[i + 1])]
  if ARGV[i] == 'add' or ARGV[i] == 'remove' then
    redis.call('ZCARD', key)
  else
    versions[key] = versions[key] or versionOf(key)
    if ARGV[i + 2] ~= '' and tonumber(ARGV[i + 2]) ~= versions[key] then return false end
    if ARGV[i] == 'exists' and versions[key] == 0 then return false end
    if ARGV[i] == 'put' then version = math.max(version, (versions[key] > 0 and versions[key] or floor()) + 1) end
  end
end
local function put(key, value, life)
  local record = text(version) .. ':' .. value
  if life == '' then redis.call('SET', key, record)
  elseif life == 'unchanged' then redis.call('SET', key, record, 'KEEPTTL')
  else redis.call('SET', key, record, 'PX', life) end
  if version > now then remember(version) end
  versions[key] = version
end
local function delete(key)
  if versions[key] == 0 then return end
  redis.call('DEL', key)
  remember(versions[key])
  versions[key] = 0
end
for i = 2, #ARGV, 5 do
  local kind, key, life, content = ARGV[i], KEYS[tonumber(ARGV[i + 1])], ARGV[i + 3], ARGV[i + 4]
  if kind == 'add' then redis.call('ZADD', key, ARGV[i + 2], content)
  elseif kind == 'remove' then redis.call('ZREM', key, content)
  elseif kind == 'put' and life ~= '0' then put(key, content, life)
  elseif kind ~= 'exists' then delete(key) end
end
return version
`;

/**
 * KEYS: the index. ARGV: score and member of the position, limit, direction. Returns the members after the position in
 * this direction, but always in ascending order. Ties are compared by bytes, as Redis does, because Lua's comparison
 * follows the server's locale.
 */
const PAGE = `
local function isBefore(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end
local score, member, limit, descending = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4] == 'descending'
local low = redis.call('ZCOUNT', KEYS[1], '-inf', '(' .. score)
local high = low + redis.call('ZCOUNT', KEYS[1], score, score)
while low < high do
  local middle = math.floor((low + high) / 2)
  local other = redis.call('ZRANGE', KEYS[1], middle, middle)[1]
  if isBefore(member, other) or (descending and member == other) then high = middle else low = middle + 1 end
end
if not descending then return redis.call('ZRANGE', KEYS[1], low, low + limit - 1, 'WITHSCORES') end
if low == 0 then return {} end
return redis.call('ZRANGE', KEYS[1], math.max(0, low - limit), low - 1, 'WITHSCORES')
`;

/** KEYS: the counter. ARGV: increment, lifetime in milliseconds, limit or empty. */
const INCREMENT = `
local stored = redis.call('GET', KEYS[1])
local value = tonumber(stored or 0) + tonumber(ARGV[1])
if ARGV[3] ~= '' and value > tonumber(ARGV[3]) then return false end
if stored then redis.call('INCRBY', KEYS[1], ARGV[1])
elseif ARGV[2] ~= '0' then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
return value
`;

/**
 * KEYS: the log, then the indexes of each entry. ARGV: three for each entry: time, text, number of its indexes. All
 * keys are read before the first one is changed, as in `WRITE`.
 */
const APPEND = `
redis.call('XLEN', KEYS[1])
for i = 2, #KEYS do redis.call('ZCARD', KEYS[i]) end
local ids, position = {}, 2
for i = 1, #ARGV, 3 do
  local id = redis.call('XADD', KEYS[1], '*', 'at', ARGV[i], 'entry', ARGV[i + 1])
  for _ = 1, tonumber(ARGV[i + 2]) do
    redis.call('ZADD', KEYS[position], ARGV[i], id)
    position = position + 1
  end
  ids[#ids + 1] = id
end
return ids
`;

/**
 * KEYS: keys of one tag. ARGV: the maximum number of members of an index. Returns for each key its text and expiry, or
 * all its members with scores, or only its type if it has another type, does not exist, or is a larger index.
 */
const READ = `
local results = {}
for i, key in ipairs(KEYS) do
  local kind = redis.call('TYPE', key).ok
  if kind == 'string' then results[i] = {'text', redis.call('GET', key), redis.call('PEXPIRETIME', key)}
  elseif kind == 'zset' and redis.call('ZCARD', key) <= tonumber(ARGV[1]) then
    results[i] = {'index', redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')}
  else results[i] = {kind} end
end
return results
`;

const LEASES = `${CLOCK}
local lease = redis.call('HMGET', KEYS[1], 'owner', 'number', 'until', 'length')
local length = tonumber(ARGV[2] or 0)
local function store(number)
  redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'number', text(number), 'until', text(now + length * 1000), 'length', length)
  redis.call('PEXPIRE', KEYS[1], length + 86400000)
end
`;

/**
 * KEYS: the lease. ARGV: owner, milliseconds. If a lease has more time left than its length, the clock was set back.
 */
const ACQUIRE = `${LEASES}
if lease[1] and lease[1] ~= ARGV[1] then
  local remaining = tonumber(lease[3]) - now
  local max = tonumber(lease[4]) * 1000
  if remaining > max then redis.call('HSET', KEYS[1], 'until', text(now + max)) end
  if remaining > 0 then return false end
end
local number = math.max(now, tonumber(lease[2] or 0) + 1)
store(number)
return number
`;

/**
 * KEYS: the lease. ARGV: owner, milliseconds; without milliseconds the lease ends now. It is remembered for a day
 * anyway.
 */
const EXTEND = `${LEASES}
if lease[1] ~= ARGV[1] or tonumber(lease[3]) <= now then return 0 end
store(tonumber(lease[2]))
return 1
`;

/** KEYS: the channel, so that one node of a cluster publishes all its messages and they keep their order. */
const PUBLISH = `return redis.call('PUBLISH', KEYS[1], ARGV[1])`;

const SCRIPTS = {
  gatehouseWrite: WRITE,
  gatehousePage: PAGE,
  gatehouseIncrement: INCREMENT,
  gatehouseAppend: APPEND,
  gatehouseRead: READ,
  gatehouseAcquire: ACQUIRE,
  gatehouseExtend: EXTEND,
  gatehousePublish: PUBLISH,
} as const;

type ScriptName = keyof typeof SCRIPTS;

export function defineScripts(client: Redis | Cluster): void {
  for (const [name, lua] of Object.entries(SCRIPTS)) client.defineCommand(name, { lua });
}

/**
 * Sends the script's digest, and its text only if the connection has not sent it yet or the server does not have it.
 */
export function runScript(
  client: Redis | Cluster,
  name: ScriptName,
  keys: readonly string[],
  args: readonly (string | number)[],
): Promise<unknown> {
  const commands = client as unknown as Record<ScriptName, (...parts: (string | number)[]) => Promise<unknown>>;
  return commands[name](keys.length, ...keys, ...args);
}
