/** Admin tokens in the administration: list, create and revoke, by page and by API. */
import type { Request } from 'express';
import { z } from 'zod';
import { AppError } from '../../../shared/errors.ts';
import { type FormView, formHandler } from '../../../shared/pages/form.ts';
import type { Notice } from '../../../shared/pages/page-data.ts';
import { newOpaqueTokenId } from '../../../shared/storage/opaque-token.ts';
import { askFor, shellQuoted } from '../../../shared/text.ts';
import { DAY_MS, isoOrNull, isoTime } from '../../../shared/time.ts';
import { ADMIN_TOKEN_PREFIX, type AdminTokens } from '../../admin-tokens/admin-tokens.ts';
import type { Columns } from '../columns.ts';
import { credentialName, stateOf, TOKEN_STATES } from '../credential.ts';
import { chosenExpiry, expiryFields, FIRST_EXPIRY, hasExpiry, NO_EXPIRY } from '../expiry.ts';
import type { AdminPageData, AdminPageOfList, PageRequest } from '../page.ts';
import type { AdminParts } from '../parts.ts';
import { createResource } from '../resource.ts';

declare module '../../../shared/pages/page-data.ts' {
  interface PageData {
    'admin/admin-tokens/list': AdminPageOfList & { tokens: readonly TokenView[] };
    'admin/admin-tokens/new': AdminPageData & { form: FormView<typeof tokenForm> };
  }
}

declare module '../parts.ts' {
  interface AdminModules {
    adminTokens: AdminTokens;
  }
}

const MAX_DAYS = 3650;
const SCOPES = ['read', 'write'] as const;

const tokenJson = z.object({
  id: z.string(),
  name: z.string(),
  scope: z.enum(SCOPES).describe('"write" includes reading'),
  createdAt: z.iso.datetime(),
  expiresAt: z.iso.datetime(),
  state: z.enum(TOKEN_STATES).describe('"expiring": within two weeks'),
  lastUsedAt: z.iso.datetime().nullable(),
});

type TokenView = z.output<typeof tokenJson>;

const COLUMNS: Columns<TokenView> = [
  { name: 'Name', csv: ({ name }) => name, cell: ({ name }) => ({ text: name }) },
  {
    name: 'ID',
    width: 'id',
    isWideOnly: true,
    csv: ({ id }) => id,
    cell: ({ id }) => ({ id, label: 'token ID' }),
  },
  {
    name: 'Permissions',
    csv: ({ scope }) => scope,
    cell: ({ scope }) => ({ words: scope === 'write' ? 'Read and change' : 'Read' }),
  },
  {
    name: 'Created',
    width: 'time',
    isWideOnly: true,
    label: 'Created',
    sorted: 'always',
    csv: ({ createdAt }) => createdAt,
    cell: ({ createdAt }) => ({ time: createdAt }),
  },
  {
    name: 'Last used',
    width: 'time',
    label: 'Used',
    csv: ({ lastUsedAt }) => lastUsedAt,
    cell: ({ lastUsedAt }) => ({ time: lastUsedAt, fallback: 'Never' }),
  },
  {
    name: 'Expires',
    width: 'state',
    label: 'Expires',
    csv: ({ expiresAt }) => expiresAt,
    cell: (token) => ({ view: '/admin/parts/expiry', data: { token } }),
  },
  { name: 'State', csv: ({ state }) => state },
];

const newToken = z.strictObject({
  name: credentialName,
  scope: z.enum(SCOPES),
  expiresAt: z.iso.datetime({ offset: true, error: 'Enter a time such as 2027-01-31T00:00:00Z.' }),
});

const tokenForm = z
  .object({ name: credentialName, scope: newToken.shape.scope, ...expiryFields })
  .refine(hasExpiry, NO_EXPIRY);

const EMPTY_FORM: FormView<typeof tokenForm> = { values: { name: '', scope: 'read', ...FIRST_EXPIRY }, faults: [] };

export function adminTokenRoutes(parts: AdminParts) {
  const { adminTokens: tokens, pages, clock } = parts;
  const call = `curl -sS ${shellQuoted(`${parts.publicUrl.href}/admin/api/connected-apps`)}`;
  const line = {
    words: 'Lists the connected apps.',
    text: `${askFor('ADMIN_TOKEN', 'Admin token')}; ${call} -H "Authorization: Bearer $ADMIN_TOKEN"`,
  };

  const resource = createResource(parts, {
    name: 'admin token',
    records: tokens,
    nameOf: ({ name }) => name,
    prefix: ADMIN_TOKEN_PREFIX,
    textsOf: ({ id, name }) => [`${ADMIN_TOKEN_PREFIX}${id}`, name],
    filters: {
      scope: { schema: z.enum(SCOPES), accepts: (token, scope) => token.scope === scope },
      state: { schema: z.enum(TOKEN_STATES), accepts: (token, state) => stateOf(token, clock()) === state },
    },
    schema: tokenJson,
    toJson: async (token) => ({
      ...token,
      createdAt: isoTime(token.createdAt),
      expiresAt: isoTime(token.expiresAt),
      state: stateOf(token, clock()),
      lastUsedAt: isoOrNull(await tokens.lastUse(token.id)),
    }),
  });

  const expiryOf = (expiresAt: string): number => {
    const time = Date.parse(expiresAt);
    if (time > clock() && time <= clock() + MAX_DAYS * DAY_MS) return time;
    const detail = 'Enter a time in the future, at most ten years from now.';
    throw new AppError('invalid_request', { detail, faults: [{ pointer: '#/expiresAt', rule: 'invalid', detail }] });
  };

  const create = async (req: Request, input: z.output<typeof newToken>) => {
    const { name, scope } = input;
    const expiresAt = expiryOf(input.expiresAt);
    const id = newOpaqueTokenId();
    const facts = { scope, expiresAt: isoTime(expiresAt) };
    const work = () => tokens.create({ id, name, scope, expiresAt });
    const { token: item, text } = await resource.audited(req, 'admin_token.created', { id, name }, work, facts);
    return { item, token: text };
  };

  const revocation = resource.removal({
    summary: 'Revoke an admin token: every call with it is refused',
    event: 'admin_token.revoked',
    verb: 'Revoke',
    consequences: ['Every further call is refused.'],
    notice: (count) =>
      count === 1
        ? 'Admin token revoked. Every further call with it is refused.'
        : `${count} admin tokens revoked. Every further call with them is refused.`,
    work: tokens.revoke,
  });

  const listPage = pages.page('admin/admin-tokens/list', async ({ req, res }) => {
    const result = await resource.pageFor(req, res, COLUMNS);
    return result && { title: 'Admin tokens', tokens: result.items, list: result.list };
  });

  const newPage = pages.page(
    'admin/admin-tokens/new',
    async ({ form = EMPTY_FORM }: PageRequest<FormView<typeof tokenForm>>) => {
      return { title: 'Create admin token', faults: form.faults, form };
    },
  );

  return {
    page: listPage.handler,
    newPage: newPage.handler,

    createByForm: formHandler({
      pages,
      schema: tokenForm,
      fieldOf: { expiresAt: 'expiresOn' },
      async work(req, { name, scope, ...expiry }) {
        const expiresAt = chosenExpiry(expiry, { now: clock(), verb: 'Create' });
        const { token } = await create(req, { name, scope, expiresAt: isoTime(expiresAt) });
        return {
          url: resource.home,
          flash: { notice: CREATED, newSecret: { kind: 'admin token', name, text: token, line } },
        };
      },
      page: (_req, form) => newPage.at(`${resource.home}/new`, form),
    }),

    revokePage: revocation.page,
    revokeByForm: revocation.byForm,

    finder: resource.finder,
    list: resource.list,
    read: resource.read,
    create: resource.create({
      summary: 'Create an admin token; only this response contains it',
      body: newToken,
      addedMembers: { token: z.string() },
      work: create,
    }),
    revoke: revocation.byApi,
  };
}

const CREATED: Notice = { tone: 'success', text: 'Admin token created.' };
