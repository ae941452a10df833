/** Which changes of the surface break something, for each kind (docs/upgrading.md). */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { breaksOf } from './breaks.ts';
import { fromFile } from './packed.ts';

const released = fromFile(readFileSync(join(import.meta.dirname, 'surface.json'), 'utf8'));
const copy = () => structuredClone(released);

/** Returns what breaks if this member has this type. */
function breaksWith(kind: string, name: string, member: string, type: string): string[] {
  const changed = copy();
  const members = changed[kind]?.[name];
  if (!members) throw new Error(`There is no ${kind}: ${name}.`);
  members[member] = type;
  return breaksOf(released, changed);
}

test('the released surface breaks nothing', () => {
  expect(breaksOf(released, copy())).toEqual([]);
});

describe.each(Object.keys(released))('a removal breaks: %s', (kind) => {
  const names = Object.entries(released[kind] ?? {});

  test('of a name', () => {
    expect(names.length).toBeGreaterThan(1);
    expect(breaksOf(released, { ...released, [kind]: {} })).toEqual(names.map(([name]) => `${kind}: ${name} is gone`));
  });

  test('of a member', () => {
    const empty = Object.fromEntries(names.map(([name]) => [name, {}]));
    const members = names.flatMap(([name, types]) => Object.keys(types).map((member) => `${name}: ${member}`));
    expect(breaksOf(released, { ...released, [kind]: empty })).toEqual(
      members.map((member) => `${kind}: ${member} is gone`),
    );
  });
});

describe.each([
  ['settings', 'Gatehouse', 'PORT', 'number?, default 3000'],
  ['commands', 'backup', '--force', 'flag?'],
  ['requests', 'GET /admin/api/webhooks', 'query state', '=active|=disabled|=failing?'],
  ['requests', 'POST /admin/api/webhooks', 'body.url', 'string'],
  ['responses', 'GET /session 200', 'body.signedIn', '=false|=true'],
  ['files', 'CONNECTED_APPS_FILE', '[].clientId', 'string'],
  ['responses', 'GET /readyz 503', 'body.ready', 'boolean'],
  ['problems of the BIN lookup service', 'api_key_invalid', 'status', '401'],
  ['webhooks', 'connection.created', 'body.data.app', 'string'],
  ['problems', 'not_found', 'status', '404'],
  ['metrics', 'gatehouse_sign_ins_total', 'type', 'counter'],
  ['storage', 'grant', 'sealed', 'true'],
])('%s: %s: %s', (kind, name, member, type) => {
  test('another type breaks', () => {
    expect(released[kind]?.[name]?.[member]).toBe(type);
    expect(breaksWith(kind, name, member, 'object')).toHaveLength(1);
  });
});

describe('what is sent', () => {
  const changed = (type: string) => breaksWith('requests', 'GET /admin/api/webhooks', 'query state', type);
  const member = (type: string) => breaksWith('requests', 'POST /admin/api/webhooks', 'body.new', type);

  test('may be accepted in more forms, and in no fewer', () => {
    expect(changed('=active|=disabled|=failing|=paused?')).toEqual([]);
    expect(changed('=active|=disabled?')).toEqual([
      'requests: GET /admin/api/webhooks: query state no longer accepts =failing',
    ]);
  });

  test('must not become required', () => {
    expect(changed('=active|=disabled|=failing')).toEqual([
      'requests: GET /admin/api/webhooks: query state is now required',
    ]);
    expect(member('string?')).toEqual([]);
    expect(member('string')).toEqual(['requests: POST /admin/api/webhooks: body.new is new and required']);
  });

  test('may have a required member in a new optional one', () => {
    const more = copy();
    Object.assign(more.requests?.['POST /admin/api/webhooks'] ?? {}, {
      'body.new': 'object?',
      'body.new.id': 'string',
    });
    expect(breaksOf(released, more)).toEqual([]);
  });

  test('may be a new setting with a default, a new option, and no required one', () => {
    expect(breaksWith('settings', 'Gatehouse', 'NEW', 'number?, default 1')).toEqual([]);
    expect(breaksWith('settings', 'Gatehouse', 'NEW', 'string')).toEqual([
      'settings: Gatehouse: NEW is new and required',
    ]);
    expect(breaksWith('commands', 'backup', '--new', 'flag?')).toEqual([]);
    expect(breaksWith('commands', 'backup', '--new', 'string')).toEqual([
      'commands: backup: --new is new and required',
    ]);
  });

  test('keeps its default', () => {
    const faults = breaksWith('settings', 'Gatehouse', 'PORT', 'number?, default 3001');
    expect(faults).toEqual(['settings: Gatehouse: PORT has another default: 3001, not 3000']);
  });
});

describe('what is received', () => {
  const NAME = 'GET /admin/api/admin-tokens/{id} 200';
  const changed = (member: string, type: string) => breaksWith('responses', NAME, member, type);

  test('may have more members and values, and no fewer', () => {
    expect(released.responses?.[NAME]?.['body.scope']).toBe('=read|=write');
    expect(changed('body.new', 'string')).toEqual([]);
    expect(changed('body.scope', '=read|=write|=audit')).toEqual([]);
    expect(changed('body.scope', '=read')).toEqual([`responses: ${NAME}: body.scope has another type: =write`]);
  });

  test('must not become absent or null', () => {
    expect(changed('body.name', 'string?')).toEqual([`responses: ${NAME}: body.name may now be absent`]);
    expect(changed('body.name', 'null|string')).toEqual([`responses: ${NAME}: body.name has another type: null`]);
  });
});

test('what is new breaks nothing', () => {
  const more = copy();
  for (const names of Object.values(more)) names.new = {};
  expect(breaksOf(released, more)).toEqual([]);
});
