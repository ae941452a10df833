/** The command `admin-token create`: makes an admin token, for the first time or when no administrator can sign in. */
import type { Command } from 'commander';
import { type AdminToken, type AdminTokenScope, createAdminTokens } from '../admin/admin-tokens/admin-token.ts';
import { newOpaqueTokenId } from '../storage/opaque-token.ts';
import { createSealedJson } from '../storage/sealed-json.ts';
import type { OpenedStorage } from '../storage/storage.ts';
import { DAY_MS, isoTime } from '../time.ts';
import { withStorage } from './open-storage.ts';
import { auditOperator } from './operator-trail.ts';
import { printResult, type Terminal } from './terminal.ts';

interface Options {
  name: string;
  scope: string;
  days: string;
  json?: boolean;
}

const MAX_DAYS = 3650;

export function addAdminTokenCommands(program: Command, terminal: Terminal): void {
  program
    .command('admin-token')
    .description('tokens for the admin HTTP API')
    .command('create')
    .description('make an admin token and print it; it cannot be shown again')
    .requiredOption('--name <name>', 'what it is for')
    .requiredOption('--scope <scope>', 'read, or write (which includes reading)')
    .requiredOption('--days <days>', `number of days it is valid, 1 to ${MAX_DAYS}`)
    .option('--json', 'print {"id", "name", "scope", "expiresAt", "token"} (use npm run -s)')
    .addHelpText(
      'after',
      '\nSend it as "Authorization: Bearer gtha_…" to /admin/api. It works at once, even while Gatehouse runs.',
    )
    .action(async ({ json = false, ...options }: Options) => {
      const request = validated(options);
      const { token, text } = await withStorage(terminal.source, (storage) => createAdminToken(storage, request));
      const { id, name, scope } = token;
      const data = { id, name, scope, expiresAt: isoTime(token.expiresAt), token: text };
      printResult(terminal, { json, data, text });
    });
}

/** Makes the token and records it in the audit trail. */
export async function createAdminToken(
  { store, sealer }: OpenedStorage,
  { name, scope, days }: { name: string; scope: AdminTokenScope; days: number },
): Promise<{ token: AdminToken; text: string }> {
  const clock = Date.now;
  const expiresAt = clock() + days * DAY_MS;
  const id = newOpaqueTokenId();
  const target = { kind: 'admin_token', id, name };
  const facts = { scope, expiresAt: isoTime(expiresAt) };
  await auditOperator(store, { event: 'admin_token.created', target, facts });
  return createAdminTokens({ store, sealedJson: createSealedJson(sealer), clock }).create({
    id,
    name,
    scope,
    expiresAt,
  });
}

function validated({ name, scope, days }: Options) {
  const trimmed = name.trim();
  if (trimmed === '' || trimmed.length > 100) throw new TypeError('--name must have 1 to 100 characters.');
  if (scope !== 'read' && scope !== 'write') throw new TypeError('--scope must be read or write.');
  const count = /^\d{1,4}$/.test(days) ? Number(days) : 0;
  if (count < 1 || count > MAX_DAYS) throw new TypeError(`--days must be a whole number from 1 to ${MAX_DAYS}.`);
  return { name: trimmed, scope, days: count } as const;
}
