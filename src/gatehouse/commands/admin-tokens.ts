/** The commands `admin-tokens create`, `list` and `revoke`: for the first token, or if no administrator can sign in. */
import type { Command } from 'commander';
import { AppError } from '../../shared/errors.ts';
import { isoTime } from '../../shared/time.ts';
import type { ListedToken } from './operator-tokens.ts';
import { printResult, type Terminal, tableText } from './terminal.ts';

interface Options {
  name: string;
  scope: string;
  days: string;
  json?: boolean;
}

const MAX_DAYS = 3650;

export function define(tokens: Command, terminal: Terminal): void {
  tokens
    .command('create')
    .description('create an admin token and print it; it cannot be shown again')
    .requiredOption('--name <name>', 'name of the token, such as its purpose')
    .requiredOption('--scope <scope>', 'read, or write (which includes reading)')
    .requiredOption('--days <days>', `number of days it is valid, 1 to ${MAX_DAYS}`)
    .option('--json', 'print {"id", "name", "scope", "expiresAt", "token"} (use npm run -s)')
    .addHelpText(
      'after',
      '\nSend it as "Authorization: Bearer gtha_…" to /admin/api. It is valid immediately, even while Gatehouse runs.',
    )
    .action(async ({ json = false, ...options }: Options) => {
      const request = validated(options);
      const { create } = await import('./operator-tokens.ts');
      const { token, text } = await create(terminal, request);
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
    .description('list the admin tokens, newest first, without the secrets')
    .option('--json', 'print [{"id", "name", "scope", "createdAt", "expiresAt", "lastUsedAt"}] (use npm run -s)')
    .action(async ({ json = false }: { json?: boolean }) => {
      const { list } = await import('./operator-tokens.ts');
      const listed = await list(terminal);
      printResult(terminal, { json, data: listed, text: tableOf(listed) });
    });
}

function addRevoke(tokens: Command, terminal: Terminal): void {
  tokens
    .command('revoke')
    .description('revoke an admin token: every process refuses it immediately')
    .argument('<id>', 'id of the token, from admin-tokens list; not the token itself')
    .option('--json', 'print {"id", "name"} (use npm run -s)')
    .action(async (id: string, { json = false }: { json?: boolean }) => {
      const { revoke } = await import('./operator-tokens.ts');
      const { name } = await revoke(terminal, id);
      printResult(terminal, { json, data: { id, name }, text: `The admin token ${id} (${name}) is revoked.` });
    });
}

function tableOf(listed: readonly ListedToken[]): string {
  if (listed.length === 0) return 'There is no admin token.';
  const rows = listed.map(({ id, scope, expiresAt, lastUsedAt, name }) => [
    ...[id, scope, Date.parse(expiresAt) <= Date.now() ? 'expired' : expiresAt, lastUsedAt ?? 'never', name],
  ]);
  return tableText([['id', 'scope', 'expires', 'last used', 'name'], ...rows]);
}

function validated({ name, scope, days }: Options) {
  const trimmed = name.trim();
  if (trimmed === '' || trimmed.length > 100)
    throw new AppError('invalid_request', { detail: '--name must have 1 to 100 characters.' });
  if (scope !== 'read' && scope !== 'write')
    throw new AppError('invalid_request', { detail: '--scope must be read or write.' });
  const count = /^\d{1,4}$/.test(days) ? Number(days) : 0;
  if (count < 1 || count > MAX_DAYS)
    throw new AppError('invalid_request', { detail: `--days must be a whole number from 1 to ${MAX_DAYS}.` });
  return { name: trimmed, scope, days: count } as const;
}
