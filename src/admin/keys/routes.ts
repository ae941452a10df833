/** The keys in the administration: which encryption key seals how much, and the keys that we sign with. Never a key itself. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { RequestHandler } from 'express';
import { z } from 'zod';
import type { AuditTrail } from '../../audit/trail.ts';
import type { OwnKeys } from '../../connected-apps/own-keys.ts';
import { type DescribedHandler, operation } from '../../http/operation.ts';
import type { Notice } from '../../pages/page-data.ts';
import type { Pages } from '../../pages/pages.ts';
import { type KeyReport, reportKeys } from '../../storage/key-report.ts';
import type { Sealer } from '../../storage/sealed.ts';
import type { Store } from '../../storage/store.ts';
import { isoTime } from '../../time.ts';
import { audited } from '../change.ts';

declare module '../../pages/page-data.ts' {
  interface PageData {
    'admin/keys': {
      page: SignedInFrame;
      /** Undefined while the first count is under way. */
      report: CountedReport | undefined;
      /** What is known without counting. */
      held: readonly { kid: string; seals: boolean }[];
      signing: readonly { kid: string; signs: boolean }[];
      notice?: Notice | undefined;
    };
  }
}

type CountedReport = KeyReport & { countedAt: string };

export interface KeyRoutes {
  page: RequestHandler;
  rotateByForm: RequestHandler;
  overview: DescribedHandler;
  rotate: DescribedHandler;
}

/** Every record is looked at for the counts: not at each look at the page, and no page waits for it for long. */
const COUNTED_MILLISECONDS = 30_000;
const PAGE_WAITS_MILLISECONDS = 30;

const keysAnswer = z.object({
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
  processes: z.int().describe('those that serve at this moment'),
  signing: z.array(z.object({ kid: z.string(), signs: z.boolean() })),
});

export function keyRoutes(parts: {
  store: Store;
  sealer: Sealer;
  ownKeys: OwnKeys;
  trail: Pick<AuditTrail, 'append'>;
  pages: Pages;
  clock: () => number;
  basePath: string;
}): KeyRoutes {
  const { store, sealer, ownKeys, trail, pages, clock, basePath } = parts;
  let counted: { report: CountedReport; at: number } | undefined;
  let counting: Promise<CountedReport> | undefined;

  const count = (): Promise<CountedReport> => {
    const at = clock();
    counting ??= reportKeys({ store, sealer })
      .then((found) => {
        const report = { ...found, countedAt: isoTime(at) };
        counted = { report, at };
        return report;
      })
      .finally(() => {
        counting = undefined;
      });
    return counting;
  };

  /** The last count at once, and the next one begun where that is old; where there is none yet, the one that is under way. */
  const latest = (): Promise<CountedReport> => {
    const now = clock();
    const isFresh = counted !== undefined && now >= counted.at && now - counted.at < COUNTED_MILLISECONDS;
    const next = isFresh ? undefined : count();
    if (counted === undefined) return next ?? count();
    // Whoever looks next is told of what keeps it from being counted, once nothing is known any more.
    next?.catch(() => undefined);
    return Promise.resolve(counted.report);
  };

  const soon = async (): Promise<CountedReport | undefined> => {
    const report = latest();
    report.catch(() => undefined);
    return Promise.race([report, sleep(PAGE_WAITS_MILLISECONDS, undefined, { ref: false })]);
  };

  const signingKeys = async () => {
    const [{ keys }, signs] = await Promise.all([ownKeys.publicKeys(), ownKeys.signingKid()]);
    return keys.map(({ kid = '' }) => ({ kid, signs: kid === signs }));
  };

  const rotate = (req: Parameters<RequestHandler>[0]) =>
    audited(trail, req, { event: 'signing_key.rotated' }, () => ownKeys.rotate());

  return {
    async page(req, res) {
      const [report, signing, { notice }] = await Promise.all([soon(), signingKeys(), pages.flashOf(req)]);
      const held = sealer.kids.map((kid) => ({ kid, seals: kid === sealer.sealingKid }));
      if (!report) res.set('Refresh', '2');
      pages.send(res, 'admin/keys', { page: pages.signedInFrame(req, 'Keys'), report, held, signing, notice });
    },

    async rotateByForm(req, res) {
      await rotate(req);
      await pages.redirect(req, res, `${basePath}/admin/keys`, { notice: ROTATED });
    },

    overview: operation(
      { summary: 'Read which encryption keys seal how much, and which keys we sign with', answer: keysAnswer },
      async () => {
        const [report, signing] = await Promise.all([latest(), signingKeys()]);
        const { countedAt, keys: encryption, processes } = report;
        return { countedAt, encryption, processes: processes.length, signing };
      },
    ),

    rotate: operation({ summary: 'Publish the next signing key now; it signs a day later' }, ({ req }) => rotate(req)),
  };
}

const ROTATED: Notice = {
  tone: 'success',
  text: 'The next signing key is published. It signs in a day, when everybody had time to read it.',
};
