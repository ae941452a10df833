/** The commands `admin-token create`, `list` and `revoke`, for the first token and for when no administrator can sign in. */
import type { Command } from 'commander';
import {
  type AdminToken,
  type AdminTokenScope,
  type AdminTokens,
  createAdminTokens,
} from '../admin/admin-tokens/admin-token.ts';
import { AppError } from '../errors.ts';
import { newOpaqueTokenId } from '../storage/opaque-token.ts';
import { allPages } from '../storage/paging.ts';
import { createSealedJson } from '../storage/sealed-json.ts';
import type { OpenedStorage } from '../storage/storage.ts';
import { DAY_MS, isoOrNull, isoTime } from '../time.ts';
import { withExistingStorage, withStorage } from './open-storage.ts';
import { auditOperator } from './operator-trail.ts';
import { printResult, type Terminal, tableText } from './terminal.ts';

interface Options {
  name: string;
  scope: string;
  days: string;
  json?: boolean;
}

const MAX_DAYS = 3650;
const LIST_BATCH = 100;

export function addAdminTokenCommands(program: Command, terminal: Terminal): void {
  const tokens = program.command('admin-token').description('tokens for the admin HTTP API');
  tokens
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
  addList(tokens, terminal);
  addRevoke(tokens, terminal);
}

function addList(tokens: Command, terminal: Terminal): void {
  tokens
    .command('list')
    .description('list the admin tokens, newest first, never the tokens themselves')
    .option(
      '--json',
      'print [{"id", "name", "scope", "createdAt", "expiresAt", "expired", "lastUsedAt"}] (use npm run -s)',
    )
    .action(async ({ json = false }: { json?: boolean }) => {
      const listed = await withExistingStorage(terminal.source, (storage) => listAdminTokens(adminTokensOf(storage)));
      printResult(terminal, { json, data: listed, text: tableOf(listed) });
    });
}

function addRevoke(tokens: Command, terminal: Terminal): void {
  tokens
    .command('revoke')
    .description('revoke an admin token: it is refused at once, in every process')
    .argument('<id>', 'its id, as admin-token list shows it; never the token itself')
    .option('--json', 'print {"id", "name"} (use npm run -s)')
    .action(async (id: string, { json = false }: { json?: boolean }) => {
      const { name } = await withExistingStorage(terminal.source, (storage) => revokeAdminToken(storage, id));
      printResult(terminal, { json, data: { id, name }, text: `The admin token ${id} (${name}) is revoked.` });
    });
}

const adminTokensOf = ({ store, sealer }: OpenedStorage) =>
  createAdminTokens({ store, sealedJson: createSealedJson(sealer), clock: Date.now });

type ListedToken = Awaited<ReturnType<typeof listAdminTokens>>[number];

async function listAdminTokens(tokens: AdminTokens) {
  const pages = await Array.fromAsync(allPages((options) => tokens.page(options), LIST_BATCH));
  return Promise.all(
    pages.flat().map(async ({ id, name, scope, createdAt, expiresAt }) => ({
      ...{ id, name, scope, createdAt: isoTime(createdAt), expiresAt: isoTime(expiresAt) },
      expired: expiresAt <= Date.now(),
      lastUsedAt: isoOrNull(await tokens.lastUse(id)),
    })),
  );
}

/** Never repeats `id`, which may be a token by mistake. */
async function revokeAdminToken(storage: OpenedStorage, id: string): Promise<AdminToken> {
  const tokens = adminTokensOf(storage);
  const token = await tokens.find(id);
  if (!token) {
    const detail = 'There is no admin token with this id. To see the ids, run: npm run gatehouse -- admin-token list';
    throw new AppError('not_found', { detail });
  }
  await auditOperator(storage.store, {
    event: 'admin_token.revoked',
    target: { kind: 'admin_token', id, name: token.name },
  });
  await tokens.revoke(id);
  return token;
}

function tableOf(listed: readonly ListedToken[]): string {
  if (listed.length === 0) return 'There is no admin token.';
  const rows = listed.map(({ id, scope, expired, expiresAt, lastUsedAt, name }) => [
    ...[id, scope, expired ? 'expired' : expiresAt, lastUsedAt ?? 'never', name],
  ]);
  return tableText([['id', 'scope', 'expires', 'last used', 'name'], ...rows]);
}

/** Makes the token and records it in the audit trail. */
export async function createAdminToken(
  storage: OpenedStorage,
  { name, scope, days }: { name: string; scope: AdminTokenScope; days: number },
): Promise<{ token: AdminToken; text: string }> {
  const clock = Date.now;
  const expiresAt = clock() + days * DAY_MS;
  const id = newOpaqueTokenId();
  const target = { kind: 'admin_token', id, name };
  const facts = { scope, expiresAt: isoTime(expiresAt) };
  await auditOperator(storage.store, { event: 'admin_token.created', target, facts });
  return adminTokensOf(storage).create({ id, name, scope, expiresAt });
}

function validated({ name, scope, days }: Options) {
  const trimmed = name.trim();
  if (trimmed === '' || trimmed.length > 100) throw new TypeError('--name must have 1 to 100 characters.');
  if (scope !== 'read' && scope !== 'write') throw new TypeError('--scope must be read or write.');
  const count = /^\d{1,4}$/.test(days) ? Number(days) : 0;
  if (count < 1 || count > MAX_DAYS) throw new TypeError(`--days must be a whole number from 1 to ${MAX_DAYS}.`);
  return { name: trimmed, scope, days: count } as const;
}
