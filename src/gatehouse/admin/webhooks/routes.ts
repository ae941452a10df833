/** Webhooks in the administration, by page and by API: their URLs, events and secrets. */
import { z } from 'zod';
import { parseInput } from '../../../shared/http/operation.ts';
import { type FormView, formHandler, ticked } from '../../../shared/pages/form.ts';
import type { NewSecret, Notice } from '../../../shared/pages/page-data.ts';
import { askFor, capitalised } from '../../../shared/text.ts';
import { DAY_SECONDS, isoOrNull } from '../../../shared/time.ts';
import { WEBHOOK_EVENTS, type Webhook } from '../../webhooks/webhook-store.ts';
import type { Webhooks } from '../../webhooks/webhooks.ts';
import { baseField, createEditing } from '../editing.ts';
import type { AdminPageData, AdminPageOfList, PageRequest } from '../page.ts';
import type { AdminParts } from '../parts.ts';
import { createResource } from '../resource.ts';
import { secretRotation, shownOnce } from '../rotation.ts';
import { findByText } from '../search/finder.ts';
import { originOf, webhookChanges } from './changes.ts';
import { type MessageRow, WEBHOOK_COLUMNS, type WebhookRow } from './columns.ts';
import { webhookMessageRoutes } from './messages.ts';
import { changedWebhook, newWebhook, type WebhookView, webhookJson, webhookView } from './view.ts';
import { stateOf, WEBHOOK_STATES, webhooksWithHealth } from './with-health.ts';

declare module '../../../shared/pages/page-data.ts' {
  interface PageData {
    'admin/webhooks/list': AdminPageOfList & { webhooks: readonly WebhookRow[]; events: readonly string[] };
    'admin/webhooks/new': AdminPageData & { events: readonly string[]; form: FormView<typeof newForm> };
    'admin/webhooks/detail': AdminPageOfList & {
      webhook: WebhookView;
      messages: readonly MessageRow[];
    };
    'admin/webhooks/edit': AdminPageData & {
      webhook: WebhookView;
      events: readonly string[];
      form: FormView<typeof changeForm>;
    };
  }
}

declare module '../parts.ts' {
  interface AdminModules {
    webhooks: Webhooks;
  }
}

/** Standard Webhooks: the key is the text after `whsec_`, in base64. */
const SIGNATURE = [
  askFor('SECRET', 'Signing secret'),
  ...['id', 'timestamp', 'body'].map((name) => `printf '${name}: ' >&2; IFS= read -r ${name}`),
  `key=$(printf %s "\${SECRET#whsec_}" | base64 -d | od -An -v -tx1 | tr -d ' \\n')`,
  'printf %s "$id.$timestamp.$body" | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | base64',
].join('; ');

const newSecretOf = ({ url, overlapEndsAt }: Webhook, text: string): NewSecret => ({
  ...{ kind: 'signing secret', name: url, text, previousUntil: isoOrNull(overlapEndsAt) },
  line: {
    words:
      'Computes the signature of a message, which its webhook-signature has after “v1,”. Copy webhook-id, webhook-timestamp and the body from the message.',
    text: SIGNATURE,
  },
});

const newForm = z.object({ url: z.string().trim().max(2_000), events: newWebhook.shape.events });
const changeForm = newForm.extend({ disabled: ticked, base: baseField });

const EMPTY_FORM: FormView<typeof newForm> = { values: { url: '', events: WEBHOOK_EVENTS }, faults: [] };

export function webhookRoutes(parts: AdminParts) {
  const { pages, outbound } = parts;
  const { registered } = parts.webhooks;
  const { withHealth, ...records } = webhooksWithHealth(parts.webhooks);

  const resource = createResource(parts, {
    name: 'webhook',
    records,
    nameOf: (webhook) => originOf(webhook),
    // Several webhooks can have the same origin.
    labelOf: (webhook) => `${originOf(webhook)} (${webhook.id.slice(0, 8)})`,
    textsOf: ({ id, url }) => [id, url],
    filters: {
      event: { schema: z.enum(WEBHOOK_EVENTS), accepts: ({ events }, event) => events.some((name) => name === event) },
      state: { schema: z.enum(WEBHOOK_STATES), accepts: (webhook, state) => stateOf(webhook) === state },
    },
    schema: webhookJson,
    toJson: webhookView,
  });
  const { create, change } = webhookChanges({
    resource,
    withHealth,
    webhooks: parts.webhooks,
    examine: outbound.examine,
  });
  const editing = createEditing(parts, {
    resource: 'webhook',
    noun: 'webhook',
    changes: ['webhook.changed'],
    labelOf: (member) => (member === 'url' ? 'URL' : capitalised(member)),
  });
  const messages = webhookMessageRoutes({ resource, messages: parts.webhooks.messages, pages });
  const removal = resource.removal({
    summary: 'Delete a webhook; its pending messages are not sent',
    event: 'webhook.deleted',
    verb: 'Delete',
    consequences: ['Deleting the webhook also deletes its messages, including pending ones.'],
    notice: (count) => `${count === 1 ? 'Webhook' : `${count} webhooks`} deleted. Pending messages are not sent.`,
    async work(id) {
      const isRemoved = await registered.remove(id);
      await parts.webhooks.messages.forget(id);
      return isRemoved;
    },
  });
  const listPage = pages.page('admin/webhooks/list', async ({ req, res }) => {
    const result = await resource.pageFor(req, res, WEBHOOK_COLUMNS);
    if (!result) return undefined;
    const byHost = Object.groupBy(result.items, ({ url }) => new URL(url).host);
    const rows = result.items.map((webhook) => {
      return { ...webhook, sharesHost: (byHost[new URL(webhook.url).host] ?? []).length > 1 };
    });
    return { title: 'Webhooks', webhooks: rows, list: result.list, events: WEBHOOK_EVENTS };
  });

  const newPage = pages.page(
    'admin/webhooks/new',
    async ({ form = EMPTY_FORM }: PageRequest<FormView<typeof newForm>>) => {
      return { title: 'Create webhook', faults: form.faults, events: WEBHOOK_EVENTS, form };
    },
  );

  const detailPage = pages.page('admin/webhooks/detail', async ({ req, res }) => {
    const webhook = await resource.find(req);
    const messagePage = await messages.pageFor(req, res, webhook);
    return messagePage && { title: webhook.url, webhook: webhookView(webhook), ...messagePage };
  });

  const editPage = pages.page(
    'admin/webhooks/edit',
    async ({ req, form: submitted }: PageRequest<FormView<typeof changeForm>>) => {
      const webhook = await resource.find(req);
      const base = editing.baseOf(membersOf(webhook));
      const form = submitted ?? { values: { ...valuesOf(webhook), base }, faults: [] };
      const title = `Edit ${webhook.url}`;
      return { title, faults: form.faults, webhook: webhookView(webhook), events: WEBHOOK_EVENTS, form };
    },
  );

  const rotation = secretRotation(parts, {
    kind: 'webhook',
    resource,
    schema: webhookJson,
    member: 'secret',
    nameOf: (webhook) => originOf(webhook),
    labelOf: ({ url }) => url,
    secretOf: async ({ id }) => (await registered.target(id))?.secrets[0],
    // Receivers need the overlap to replace the secret without refusing a message.
    defaults: { seconds: DAY_SECONDS, hours: '24' },
    hint: 'Messages carry the signatures of both until then.',
    consequence: 'Messages are signed only with the current secret.',
    async rotate(...request) {
      const rotated = await registered.rotate(...request);
      return rotated && { item: await withHealth(rotated.webhook), text: rotated.secret };
    },
    async end(...request) {
      const webhook = await registered.endOverlap(...request);
      return webhook && withHealth(webhook);
    },
    newSecretOf,
  });

  return {
    page: listPage.handler,
    newPage: newPage.handler,
    detailPage: detailPage.handler,
    editPage: editPage.handler,

    createByForm: formHandler({
      pages,
      schema: newForm,
      async work(req, input) {
        const { item, secret: text } = await create(req, { ...input, disabled: false });
        return { url: `${resource.home}/${item.id}`, flash: { notice: CREATED, newSecret: newSecretOf(item, text) } };
      },
      page: (_req, form) => newPage.at(`${resource.home}/new`, form),
    }),

    changeByForm: formHandler({
      pages,
      schema: changeForm,
      work: (req, { base, ...form }) =>
        editing.save(String(req.params.id), async () => {
          const { id, version, ...webhook } = await resource.find(req);
          const current = membersOf(webhook);
          const valuesOfMerged = (merged: object) => valuesOf(parseInput(newWebhook, merged));
          const edit = { id, base, current, form, valuesOf: valuesOfMerged };
          return editing.merge(req, edit, async ({ merged, withKept }) => {
            await change(req, { ...parseInput(newWebhook, merged), version });
            return { url: `${resource.home}/${id}`, flash: { notice: withKept(CHANGED) } };
          });
        }),
      page: (req, form) => editPage.at(`${resource.home}/${encodeURIComponent(String(req.params.id))}/edit`, form),
    }),

    rotation,

    removePage: removal.page,
    removeByForm: removal.byForm,

    messages,

    finder: {
      ...resource.finder,
      // This reads the records without the health, which the search does not need.
      find: findByText({
        records: registered,
        searchResultOf: ({ url }) => ({ name: url }),
        pathOf: (id) => `/admin/webhooks/${id}`,
      }),
    },
    list: resource.list,
    read: resource.read,
    create: resource.create({
      summary: 'Create a webhook; only this response contains the secret that signs its messages',
      body: newWebhook,
      addedMembers: { secret: shownOnce },
      work: create,
    }),
    replace: resource.change({ summary: 'Change a webhook', body: changedWebhook, work: change }),
    remove: removal.byApi,
  };
}

const CREATED: Notice = {
  tone: 'success',
  text: 'Webhook created. Store its signing secret, then send a test message.',
};
const CHANGED: Notice = { tone: 'success', text: 'Saved.' };

function membersOf({ url, events, disabled }: Pick<Webhook, 'url' | 'events' | 'disabled'>) {
  return { url, events, disabled };
}

function valuesOf({ url, events, disabled }: Pick<Webhook, 'url' | 'events' | 'disabled'>) {
  return { url, events, disabled: disabled ? 'yes' : '' };
}
