/** Owns the command that makes an admin token at the terminal: the first one, and the way back in when nobody can sign in. */
import type { Command } from 'commander';
import { type AdminToken, createAdminTokens } from '../admin/admin-token.ts';
import type { OpenedStorage } from '../open-storage.ts';
import { newOpaqueTokenId } from '../storage/opaque-token.ts';
import { withStorage } from './open-storage.ts';
import { noteByOperator } from './operator-trail.ts';
import { answer, type Terminal } from './terminal.ts';

interface Options {
  name: string;
  scope: string;
  days: string;
  json?: boolean;
}

const MOST_DAYS = 3650;
const DAY_MILLISECONDS = 86_400_000;

export function addAdminTokenCommands(program: Command, terminal: Terminal): void {
  program
    .command('admin-token')
    .description('tokens for the HTTP API of the administration')
    .command('create')
    .description('make an admin token, and print it: nobody can have it again')
    .requiredOption('--name <name>', 'what it is for')
    .requiredOption('--scope <scope>', 'read, or write (which includes reading)')
    .requiredOption('--days <days>', `for how many days, 1 to ${MOST_DAYS}`)
    .option('--json', 'print {"id", "name", "scope", "expiresAt", "token"} (use npm run -s)')
    .addHelpText(
      'after',
      '\nSend it as "Authorization: Bearer gtha_…" to /admin/api. It works at once, also while Gatehouse runs.',
    )
    .action(async ({ json = false, ...options }: Options) => {
      const wanted = checked(options);
      const { token, text } = await withStorage(terminal.source, (storage) => create(storage, wanted));
      const { id, name, scope } = token;
      const data = { id, name, scope, expiresAt: new Date(token.expiresAt).toISOString(), token: text };
      answer(terminal, { json, data, text });
    });
}

async function create(
  { store }: OpenedStorage,
  { name, scope, days }: ReturnType<typeof checked>,
): Promise<{ token: AdminToken; text: string }> {
  const clock = Date.now;
  const expiresAt = clock() + days * DAY_MILLISECONDS;
  const id = newOpaqueTokenId();
  const target = { kind: 'admin_token', id, name };
  const facts = { scope, expiresAt: new Date(expiresAt).toISOString() };
  await noteByOperator(store, { event: 'admin_token.created', target, facts });
  return createAdminTokens({ store, clock }).create({ id, name, scope, expiresAt });
}

function checked({ name, scope, days }: Options) {
  const trimmed = name.trim();
  if (trimmed === '' || trimmed.length > 100) throw new TypeError('--name is 1 to 100 characters.');
  if (scope !== 'read' && scope !== 'write') throw new TypeError('--scope is read or write.');
  const count = /^\d{1,4}$/.test(days) ? Number(days) : 0;
  if (count < 1 || count > MOST_DAYS) throw new TypeError(`--days is a whole number from 1 to ${MOST_DAYS}.`);
  return { name: trimmed, scope, days: count } as const;
}
