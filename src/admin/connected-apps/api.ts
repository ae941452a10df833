/** Connected apps in the API of the administration. */
import { z } from 'zod';
import type { AppRegistry } from '../../connected-apps/app-registry.ts';
import type { AppStore } from '../../connected-apps/app-store.ts';
import { CALLBACK_URL_ADVICE, checkCallbackUrls } from '../../connected-apps/callback-url.ts';
import { AppError } from '../../errors.ts';
import { type DescribedHandler, operation } from '../../http/operation.ts';
import { type ListQuery, listOf, listQuery, matches, pageOf } from '../listing.ts';
import type { ConnectedAppChanges } from './changes.ts';
import { type AppAnswer, appAnswer, appTold, changedApp, newApp } from './view.ts';
import { withdrawalWords } from './withdrawal.ts';

export interface ConnectedAppApi {
  list: DescribedHandler;
  one: DescribedHandler;
  create: DescribedHandler;
  replace: DescribedHandler;
  remove: DescribedHandler;
  judgeCallbackUrls: DescribedHandler;
}

/** What pages and API know of an app. */
export interface ConnectedAppFacts {
  /** In the order of their ids. */
  list(): Promise<AppAnswer[]>;
  /** Ids of those that no key opens any more: they can only be deleted. */
  unreadable(): Promise<string[]>;
  /** With its connections counted. @throws AppError `not_found` */
  one(id: string): Promise<AppAnswer>;
}

export function connectedAppFacts(parts: {
  apps: AppStore;
  registry: AppRegistry;
  publicHref: string;
  countConnections: (appId: string) => Promise<number>;
}): ConnectedAppFacts {
  const { apps, registry, publicHref, countConnections } = parts;
  return {
    async list() {
      const registered = (await registry.list()).filter((one) => 'app' in one);
      const ofFile = apps.list().filter(({ id }) => registry.isFromFile(id));
      const told = [
        ...ofFile.map((app) => appTold(app, undefined, publicHref)),
        ...registered.filter(({ app }) => !registry.isFromFile(app.id)).map((one) => appTold(one.app, one, publicHref)),
      ];
      return told.sort((left, right) => (left.id < right.id ? -1 : 1));
    },

    async unreadable() {
      return (await registry.list()).flatMap((one) => ('unreadable' in one ? [one.id] : []));
    },

    async one(id) {
      if (await registry.isUnreadable(id)) {
        throw new AppError('not_found', {
          detail: 'What was kept of this app cannot be opened with the present keys: delete it, and register it again.',
        });
      }
      const registered = registry.isFromFile(id) ? undefined : await registry.find(id);
      const app = registered?.app ?? (registry.isFromFile(id) ? apps.find(id) : undefined);
      if (!app) throw new AppError('not_found', { detail: 'There is no connected app with this id.' });
      return { ...appTold(app, registered, publicHref), connections: await countConnections(id) };
    },
  };
}

const removedApp = z.object({
  provider: z.object({
    outcome: z.enum(['deleted', 'refused', 'unreachable']).describe('what became of the registration there'),
    status: z.int().optional().describe('with which it refused'),
    detail: z.string(),
  }),
});

export function connectedAppApi(parts: {
  facts: ConnectedAppFacts;
  changes: ConnectedAppChanges;
  publicHref: string;
}): ConnectedAppApi {
  const { facts, changes, publicHref } = parts;

  const listed = async (query: ListQuery) => {
    const all = (await facts.list()).filter(({ id, name, issuer }) => matches(query.q, id, name, issuer));
    return pageOf(all, query);
  };

  return {
    list: operation(
      { summary: 'List connected apps, those of the file included', query: listQuery, answer: listOf(appAnswer) },
      ({ query }) => listed(query),
    ),

    one: operation({ summary: 'Read a connected app', answer: appAnswer }, ({ req }) =>
      facts.one(String(req.params.id)),
    ),

    create: operation(
      { summary: 'Register a connected app', body: newApp, answer: appAnswer, status: 201 },
      async ({ req, res, body }) => {
        const { app } = await changes.create(req, body);
        res.set('Location', `${publicHref}/admin/api/connected-apps/${app.id}`);
        return facts.one(app.id);
      },
    ),

    replace: operation(
      {
        summary: 'Change a connected app as a whole; the client secret left out is kept',
        body: changedApp,
        answer: appAnswer,
      },
      async ({ req, body }) => {
        const { app } = await changes.replace(req, String(req.params.id), body);
        return facts.one(app.id);
      },
    ),

    remove: operation(
      {
        summary:
          'Delete a connected app that nobody is connected with: 204, or 200 with what the provider responded ' +
          'where Gatehouse had registered the app there',
        query: z.strictObject({
          version: z.coerce.number().int().optional().describe('the version that was read: a newer one is not deleted'),
        }),
        answer: removedApp,
        emptyStatus: 204,
      },
      async ({ req, res, query }) => {
        const { withdrawal, clientId } = await changes.remove(req, String(req.params.id), query.version);
        if (withdrawal) {
          const { outcome } = withdrawal;
          const status = outcome === 'refused' ? withdrawal.status : undefined;
          return { provider: { outcome, status, detail: withdrawalWords(withdrawal, clientId) } };
        }
        res.status(204).end();
      },
    ),

    judgeCallbackUrls: operation(
      {
        summary: 'Judge callback URLs by the rules for them; nothing is kept',
        body: z.strictObject({ urls: z.array(z.string().max(2000)).max(50) }),
        answer: z.object({ faults: z.array(z.object({ position: z.int(), rule: z.string(), detail: z.string() })) }),
      },
      async ({ body }) => ({
        faults: checkCallbackUrls(body.urls).map(({ position, rule }) => ({
          ...{ position, rule },
          detail: CALLBACK_URL_ADVICE[rule],
        })),
      }),
    ),
  };
}
