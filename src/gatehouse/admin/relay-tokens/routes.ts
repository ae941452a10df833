/** Relay tokens in the administration: list, create, change, rotate and revoke, by page and by API. */
import { z } from 'zod';
import { parseInput } from '../../../shared/http/operation.ts';
import { type FormView, formHandler } from '../../../shared/pages/form.ts';
import type { NewSecret, Notice } from '../../../shared/pages/page-data.ts';
import { isoOrNull } from '../../../shared/time.ts';
import { RELAY_SCOPES } from '../../relay/policy.ts';
import { RELAY_TOKEN_PREFIX, type RelayToken, type RelayTokenInput } from '../../relay/relay-token.ts';
import { stateOf, TOKEN_STATES } from '../credential.ts';
import type { AdminPageData, AdminPageOfList, PageRequest } from '../page.ts';
import type { AdminParts } from '../parts.ts';
import { lineOf } from '../policy/example-calls.ts';
import { createResource } from '../resource.ts';
import { secretRotation, shownOnce } from '../rotation.ts';
import { type TimelineSection, timelineSection } from '../timeline/section.ts';
import { createTimelines } from '../timeline/timeline.ts';
import { relayTokenChanges } from './changes.ts';
import { type Choices, choicesFor } from './choices.ts';
import { editedToken, membersOfToken, relayTokenEditing } from './editing.ts';
import { EMPTY_FORM, inputOf, newTokenForm, TOKEN_FIELDS, tokenForm, valuesOfToken } from './form.ts';
import { callsOf, idleScopesOf } from './idle-scopes.ts';
import { entriesOf, idsOfEntries, namedUsers, type ShownUser } from './listed-users.ts';
import {
  changedRelayToken,
  newRelayToken,
  type RelayTokenView,
  relayTokenColumns,
  relayTokenJson,
  relayTokenView,
} from './view.ts';

declare module '../../../shared/pages/page-data.ts' {
  interface PageData {
    'admin/relay-tokens/list': AdminPageOfList & Choices & { tokens: readonly RelayTokenView[] };
    'admin/relay-tokens/new': AdminPageData & Choices & { form: FormView<typeof newTokenForm> };
    'admin/relay-tokens/detail': AdminPageData &
      Choices & {
        token: RelayTokenView;
        /** The first users of the token. */
        listed: readonly ShownUser[];
        timeline: TimelineSection;
      };
    'admin/relay-tokens/edit': AdminPageData & Choices & { token: RelayTokenView; form: FormView<typeof tokenForm> };
  }
}

export function relayTokenRoutes(parts: AdminParts) {
  const { relay, connectedApps, grants, users, pages, publicUrl, clock } = parts;
  const { tokens, accounts } = relay;
  const timelines = createTimelines(parts);
  const { apps } = connectedApps;

  const resource = createResource(parts, {
    name: 'relay token',
    records: tokens,
    nameOf: ({ name }) => name,
    prefix: RELAY_TOKEN_PREFIX,
    hasPage: true,
    textsOf: ({ id, name }) => [`${RELAY_TOKEN_PREFIX}${id}`, name],
    filters: {
      app: {
        schema: z.string().max(40).describe('id of a connected app that the token may use'),
        accepts: (token, app) => token.apps.includes(app),
        isKnown: (id) => apps.find(id) !== undefined,
      },
      scope: {
        schema: z.enum(RELAY_SCOPES).describe('a scope that the token has'),
        accepts: (token, scope) => token.scopes.some((tokenScope) => tokenScope === scope),
      },
      state: { schema: z.enum(TOKEN_STATES), accepts: (token, state) => stateOf(token, clock()) === state },
    },
    schema: relayTokenJson,
    async toJson(token: RelayToken) {
      const [use, idleScopes] = await Promise.all([
        tokens.lastUse(token.id),
        idleScopesOf({ apps, accounts, users: users.store }, token),
      ]);
      return relayTokenView(token, { use, idleScopes, now: clock() });
    },
  });
  const { create, change } = relayTokenChanges({ resource, tokens, apps, clock });
  const revocation = resource.removal({
    summary: 'Revoke a relay token: every process refuses it within a second',
    event: 'relay_token.revoked',
    verb: 'Revoke',
    consequences: [
      'All processes refuse further calls within a second. Connect links that the token created no longer work.',
    ],
    notice: (count) =>
      count === 1
        ? 'Relay token revoked. Every further call with it is refused.'
        : `${count} relay tokens revoked. Every further call with them is refused.`,
    async work(id) {
      const isRevoked = await tokens.revoke(id);
      await grants.links.revokeAll('relay-token', id);
      return isRevoked;
    },
  });
  const withIds = async <T extends { users: string; listed: string[] }>(form: T): Promise<T> => ({
    ...form,
    listed: form.users === 'listed' ? await idsOfEntries(users.store, form.listed) : [],
  });
  const valuesOf = async (token: RelayTokenInput) =>
    valuesOfToken(token, await entriesOf(users.store, typeof token.users === 'string' ? [] : token.users));
  const editing = relayTokenEditing(parts);
  const newSecretOf = async (token: RelayToken, text: string): Promise<NewSecret> => ({
    ...{ kind: 'relay token', name: token.name, text },
    previousUntil: isoOrNull(token.overlapEndsAt),
    line: lineOf(publicUrl.href, await callsOf({ accounts, apps }, token, (await resource.toJson(token)).idleScopes)),
  });
  const rotation = secretRotation(parts, {
    kind: 'relay_token',
    resource,
    schema: relayTokenJson,
    member: 'token',
    nameOf: ({ name }) => name,
    labelOf: ({ name }) => name,
    secretOf: ({ rotatedAt }) => rotatedAt,
    defaults: { seconds: 0, hours: '1' },
    hint: 'Calls with either secret are allowed until then.',
    consequence: 'Every further call with the previous secret is refused. The current one stays valid.',
    async rotate(...request) {
      const rotated = await tokens.rotate(...request);
      return rotated && { item: rotated.token, text: rotated.text };
    },
    end: tokens.endOverlap,
    newSecretOf,
  });
  const choices = (chosen?: readonly string[]) => choicesFor(apps, chosen);
  const namesOf = (token: RelayTokenView) => token.apps.map((id) => apps.nameOf(id));

  const listPage = pages.page('admin/relay-tokens/list', async ({ req, res }) => {
    const result = await resource.pageFor(req, res, relayTokenColumns(namesOf));
    return result && { title: 'Relay tokens', tokens: result.items, list: result.list, ...choices() };
  });

  const newPage = pages.page(
    'admin/relay-tokens/new',
    async ({ form = EMPTY_FORM }: PageRequest<FormView<typeof newTokenForm>>) => {
      return { title: 'Create relay token', faults: form.faults, ...choices(form.values.routes), form };
    },
  );

  const detailPage = pages.page('admin/relay-tokens/detail', async ({ req }) => {
    const token = await resource.find(req);
    const ids = typeof token.users === 'string' ? [] : token.users;
    const view = await resource.toJson(token);
    return {
      title: token.name,
      token: view,
      listed: await namedUsers(users.store, ids),
      timeline: await timelineSection(req, (query) => timelines.ofToken(token, query)),
      ...choices(),
    };
  });

  const editPage = pages.page(
    'admin/relay-tokens/edit',
    async ({ req, form: submitted }: PageRequest<FormView<typeof tokenForm>>) => {
      const token = await resource.find(req);
      const values = { ...(await valuesOf(token)), base: editing.baseOf(membersOfToken(token)) };
      const form = submitted ?? { values, faults: [] };
      const view = await resource.toJson(token);
      return { title: `Edit ${token.name}`, faults: form.faults, token: view, ...choices(form.values.routes), form };
    },
  );

  return {
    page: listPage.handler,
    detailPage: detailPage.handler,
    newPage: newPage.handler,
    editPage: editPage.handler,

    createByForm: formHandler({
      pages,
      schema: newTokenForm,
      fieldOf: TOKEN_FIELDS,
      async work(req, form) {
        const { item, token } = await create(req, inputOf(await withIds(form), { now: clock(), verb: 'Create' }));
        return {
          url: `${resource.home}/${item.id}`,
          flash: { notice: CREATED, newSecret: await newSecretOf(item, token) },
        };
      },
      page: (_req, form) => newPage.at(`${resource.home}/new`, form),
    }),

    changeByForm: formHandler({
      pages,
      schema: tokenForm,
      fieldOf: TOKEN_FIELDS,
      work: (req, { base, ...form }) =>
        editing.save(String(req.params.id), async () => {
          const token = await resource.find(req);
          const options = { now: clock(), verb: 'Save', current: token.expiresAt };
          const { expiresAt, ...policy } = inputOf(await withIds(form), options);
          const edit = {
            id: token.id,
            base,
            current: membersOfToken(token),
            form: form.expiry === 'keep' ? policy : { ...policy, expiresAt },
            valuesOf: async (input: object) => {
              const { expiry, expiresOn, confirmed, ...values } = await valuesOf(parseInput(editedToken, input));
              return values;
            },
          };
          return editing.merge(req, edit, async ({ merged, withKept }) => {
            await change(req, { ...parseInput(editedToken, merged), version: token.version });
            return { url: `${resource.home}/${token.id}`, flash: { notice: withKept(CHANGED) } };
          });
        }),
      page: (req, form) => editPage.at(`${resource.home}/${encodeURIComponent(String(req.params.id))}/edit`, form),
    }),

    rotation,

    revokePage: revocation.page,
    revokeByForm: revocation.byForm,

    finder: resource.finder,
    list: resource.list,
    read: resource.read,
    create: resource.create({
      summary: 'Create a relay token; only this response contains it',
      body: newRelayToken,
      addedMembers: { token: shownOnce },
      work: create,
    }),
    replace: resource.change({
      summary: 'Change what a relay token may do',
      body: changedRelayToken,
      work: change,
    }),
    revoke: revocation.byApi,
  };
}

const CREATED: Notice = { tone: 'success', text: 'Relay token created.' };
const CHANGED: Notice = { tone: 'success', text: 'Saved. All processes use the change within a second.' };
