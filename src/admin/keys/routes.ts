/** Keys in the administration: how many records each encryption key seals, and the signing keys. Never a key itself. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Request } from 'express';
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { operation } from '../../http/operation.ts';
import type { Notice } from '../../pages/page-data.ts';
import { type KeyReport, reportKeys } from '../../storage/key-report.ts';
import { isoTime } from '../../time.ts';
import type { AdminParts } from '../admin.ts';
import { audited } from '../change.ts';
import type { AdminPageData } from '../page.ts';

declare module '../../pages/page-data.ts' {
  interface PageData {
    'admin/keys': AdminPageData & {
      /** Undefined while the first count is under way. */
      report: CountedReport | undefined;
      /** Known without counting. */
      held: readonly { kid: string; seals: boolean }[];
      signing: readonly { kid: string; signs: boolean }[];
    };
  }
}

type CountedReport = KeyReport & { countedAt: string };

/** A count reads every record, so it is used for a while, and pages do not wait for it. */
const MAX_COUNT_AGE_MS = 30_000;
const PAGE_WAITS_MS = 30;

const keysJson = z.object({
  countedAt: z.iso.datetime(),
  encryption: z.array(
    z.object({
      kid: z.string(),
      seals: z.boolean().describe('it is the first of ENCRYPTION_KEYS'),
      held: z.boolean().describe('ENCRYPTION_KEYS holds it'),
      records: z.int(),
      kinds: z.record(z.string(), z.int()),
      droppable: z.boolean().describe('a start without it is not refused'),
    }),
  ),
  processes: z.int().describe('how many run at this moment'),
  signing: z.array(z.object({ kid: z.string(), signs: z.boolean() })),
});

export function keyRoutes({ storage, connectedApps, audit, pages, publicUrl, clock }: AdminParts) {
  const { store, sealer } = storage;
  const { ownKeys } = connectedApps;

  const counts = new LRUCache<'report', CountedReport>({
    max: 1,
    ttl: MAX_COUNT_AGE_MS,
    perf: { now: clock },
    // The last report is used while the next count runs, and if it fails.
    allowStale: true,
    noDeleteOnFetchRejection: true,
    async fetchMethod() {
      const countedAt = isoTime(clock());
      return { ...(await reportKeys({ store, sealer })), countedAt };
    },
  });
  const latestReport = () => counts.forceFetch('report');

  const signingKeys = async () => {
    const [{ keys }, signs] = await Promise.all([ownKeys.publicKeys(), ownKeys.signingKid()]);
    return keys.map(({ kid = '' }) => ({ kid, signs: kid === signs }));
  };

  const rotate = (req: Request) => audited(audit.trail, req, { event: 'signing_key.rotated' }, () => ownKeys.rotate());

  const overview = pages.page('admin/keys', async ({ res }) => {
    const counted = latestReport();
    counted.catch(() => undefined);
    const [report, signing] = await Promise.all([
      Promise.race([counted, sleep(PAGE_WAITS_MS, undefined, { ref: false })]),
      signingKeys(),
    ]);
    if (!report) res.set('Refresh', '2');
    const held = sealer.kids.map((kid) => ({ kid, seals: kid === sealer.sealingKid }));
    return { title: 'Keys', report, held, signing };
  });

  return {
    page: overview.handler,

    rotateByForm: pages.button(async (req) => {
      await rotate(req);
      return { url: `${publicUrl.basePath}/admin/keys`, flash: { notice: ROTATED } };
    }),

    overview: operation(
      {
        summary: 'Read the encryption keys with the number of records that each seals, and the signing keys',
        response: keysJson,
      },
      async () => {
        const [report, signing] = await Promise.all([latestReport(), signingKeys()]);
        const { countedAt, keys: encryption, processes } = report;
        return { countedAt, encryption, processes: processes.length, signing };
      },
    ),

    rotate: operation({ summary: 'Publish the next signing key now; it signs a day later' }, ({ req }) => rotate(req)),
  };
}

const ROTATED: Notice = {
  tone: 'success',
  text: 'The next signing key is published. It signs in one day, so that every service has time to read it.',
};
