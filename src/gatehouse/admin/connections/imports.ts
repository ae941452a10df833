/** Imports connections from another system by the admin API. */
import { z } from 'zod';
import { operation } from '../../../shared/http/operation.ts';
import { actorOf } from '../../../shared/sessions/actor.ts';
import { startImport } from '../../users/connection-import.ts';
import { importEntry, importReport } from '../../users/import-schema.ts';
import type { AdminParts } from '../parts.ts';

const MAX_ENTRIES = 100;
/** Limits how long an import waits for rate limits and for providers that do not respond. */
const PATIENCE = { milliseconds: 20_000, sinceSuccess: false };

export function connectionImportRoutes({ grants, users, connectedApps, platform, audit, clock }: AdminParts) {
  return {
    import: operation(
      {
        summary: 'Import connections: each refresh token is sealed, then tried once; the report says what failed',
        body: z.strictObject({ entries: z.array(importEntry).min(1).max(MAX_ENTRIES) }),
        response: importReport,
      },
      async ({ req, body }) => {
        const { report, take } = startImport({
          apps: connectedApps.apps,
          users: users.store,
          imports: grants.imports,
          charge: platform.charge,
          audit: ({ userId, app, connection, scopes }) =>
            audit.trail.append({
              event: 'connection.imported',
              target: { kind: 'connection', id: `${userId}/${app}` },
              userId,
              facts: { connection, scopes },
              ...actorOf(req),
            }),
          clock,
          patience: PATIENCE,
        });
        await take(body.entries.map((entry, position) => ({ line: position, entry })));
        return {
          ...report,
          failures: report.failures.map(({ line: position, ...failure }) => ({ position, ...failure })),
        };
      },
    ),
  };
}
