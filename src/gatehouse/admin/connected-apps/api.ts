/** Connected apps in the admin API. */
import type { Response } from 'express';
import { z } from 'zod';
import { listOf } from '../../../shared/http/list-schema.ts';
import { operation } from '../../../shared/http/operation.ts';
import { entriesOf } from '../../../shared/pages/form.ts';
import { checkCallbackUrls } from '../../../shared/provider/callback-url.ts';
import { callbackUrlOf, connectedAppSchema } from '../../../shared/provider/connected-app.ts';
import { listQuery } from '../listing.ts';
import type { ConnectedAppChanges } from './changes.ts';
import { appToRegister, type RegisterAtProvider } from './provider-registration.ts';
import type { ConnectedAppReader } from './reader.ts';
import { patternFaults, typedRoutes } from './route-rows.ts';
import { appJson, changedApp, newApp } from './view.ts';
import { withdrawalWords } from './withdrawal.ts';

const removedJson = z.object({
  providerRegistration: z.object({
    outcome: z
      .enum(['deleted', 'refused', 'unreachable'])
      .describe('how the deletion of the registration at the provider ended'),
    status: z.int().optional().describe('the status of the refusal'),
    detail: z.string(),
  }),
});

export function connectedAppApi(parts: {
  reader: ConnectedAppReader;
  changes: ConnectedAppChanges;
  registerAtProvider: RegisterAtProvider;
  publicHref: string;
}) {
  const { reader, changes, registerAtProvider, publicHref } = parts;

  /** Sets `Location` and returns the body. */
  const setLocationAndRead = async (res: Response, id: string) => {
    res.set('Location', `${publicHref}/admin/api/connected-apps/${id}`);
    return reader.read(id);
  };

  return {
    list: operation(
      {
        summary: 'List connected apps, including those of CONNECTED_APPS_FILE',
        query: listQuery,
        response: listOf(appJson),
      },
      ({ query }) => reader.page(query),
    ),

    read: operation(
      {
        summary: 'Read a connected app; with scopes, also count the connections that would need new consent',
        query: z.strictObject({
          scopes: z.string().max(20_000).optional().describe('the planned scopes of the app, separated by spaces'),
        }),
        response: appJson,
      },
      async ({ req, query: { scopes } }) => {
        const app = await reader.read(String(req.params.id));
        if (scopes === undefined) return app;
        return { ...app, missingScopes: await reader.countMissingScopes(app, entriesOf(scopes, /\s/)) };
      },
    ),

    create: operation(
      { summary: 'Register a connected app', body: newApp, response: appJson, status: 201 },
      async ({ req, res, body }) => setLocationAndRead(res, (await changes.create(req, body)).app.id),
    ),

    registerAtProvider: operation(
      {
        summary: 'Register an app at its provider and here, if the provider supports dynamic client registration',
        body: appToRegister,
        response: appJson,
        status: 201,
      },
      async ({ req, res, body }) => setLocationAndRead(res, (await registerAtProvider(req, body)).app.id),
    ),

    replace: operation(
      {
        summary: 'Replace the registration of a connected app; without a client secret, the stored secret is kept',
        body: changedApp,
        response: appJson,
      },
      async ({ req, body }) => {
        const { app } = await changes.replace(req, String(req.params.id), body);
        return reader.read(app.id);
      },
    ),

    remove: operation(
      {
        summary:
          'Delete a connected app without connections: 204, or 200 with the outcome at the provider if Gatehouse ' +
          'had registered the app there',
        query: z.strictObject({
          version: z.coerce
            .number()
            .int()
            .optional()
            .describe('the version you read; the app is not deleted if it has changed since'),
        }),
        response: removedJson,
        emptyStatus: 204,
      },
      async ({ req, res, query }) => {
        const { withdrawal, clientId } = await changes.remove(req, String(req.params.id), query.version);
        if (withdrawal) {
          const { outcome } = withdrawal;
          const status = outcome === 'refused' ? withdrawal.status : undefined;
          return { providerRegistration: { outcome, status, detail: withdrawalWords(withdrawal, clientId) } };
        }
        res.status(204).end();
      },
    ),

    checkRoutePatterns: operation(
      {
        summary: 'Check the patterns of routes, before their other fields are entered; nothing is stored',
        body: z.strictObject({
          threadPath: connectedAppSchema.shape.threadPath,
          routes: typedRoutes,
        }),
        response: z.object({ faults: z.array(z.object({ position: z.int(), detail: z.string() })) }),
      },
      async ({ body: { routes, threadPath } }) => ({ faults: patternFaults(routes, threadPath) }),
    ),

    checkCallbackUrls: operation(
      {
        summary: 'Check the callback URLs of an app, also for likely typing errors; nothing is stored',
        body: z.strictObject({
          id: z.string().max(40).describe('the id of the app, also before it is registered'),
          urls: z.array(z.string().max(2000)).max(50),
        }),
        response: z.object({
          faults: z.array(
            z.object({
              position: z.int(),
              rule: z.string(),
              detail: z.string(),
              suggestedUrl: z.string().optional().describe('the URL that was probably meant'),
            }),
          ),
        }),
      },
      async ({ body: { id, urls } }) => ({
        faults: checkCallbackUrls(urls, { callbackUrl: callbackUrlOf(id, publicHref), publicHref }),
      }),
    ),
  };
}
