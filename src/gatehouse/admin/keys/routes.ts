/** Keys in the administration: what each encryption key seals, its rotation, and the signing keys. Never a key itself. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Request } from 'express';
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { AppError } from '../../../shared/errors.ts';
import { operation } from '../../../shared/http/operation.ts';
import type { Notice } from '../../../shared/pages/page-data.ts';
import { actorOf } from '../../../shared/sessions/actor.ts';
import { type KeyReport, listKeys, reportKeys } from '../../../shared/storage/key-report.ts';
import { isoTime } from '../../../shared/time.ts';
import { type KeyRotation, type RotationProgress, rotationJson } from '../../key-rotation/key-rotation.ts';
import { audited } from '../change.ts';
import { confirmation } from '../confirmation.ts';
import type { AdminPageData } from '../page.ts';
import type { AdminParts } from '../parts.ts';

declare module '../../../shared/pages/page-data.ts' {
  interface PageData {
    'admin/keys/page': AdminPageData & {
      /** Undefined while the first count is under way. */
      report: CountedReport | undefined;
      /** Known without counting. */
      held: readonly { kid: string; seals: boolean }[];
      /** Records that another key seals; undefined until they are counted. */
      due: number | undefined;
      rotation: RotationProgress | undefined;
      signing: readonly SigningKey[];
      wordsOfKind: typeof wordsOfKind;
    };
  }
}

declare module '../parts.ts' {
  interface AdminModules {
    keyRotation: KeyRotation;
  }
}

/** What the page calls kinds of encrypted records, unless by their own name. The API uses the kinds as stored. */
const KIND_WORDS: Readonly<Record<string, string>> = {
  grant: 'connections',
  'session-id-token': 'ID tokens of sessions',
  'connected-app': 'apps',
  'own-keys': 'signing keys',
  flash: 'notices after a change',
  'pending-requests': 'pending requests',
  revocation: 'unconfirmed revocations',
};

export const wordsOfKind = (kind: string): string => KIND_WORDS[kind] ?? `${kind.replaceAll('-', ' ')}s`;

type CountedReport = KeyReport & { countedAt: string };

/** A count reads every record: it is used for a while, longer if it took long, and no request waits for it. */
const MIN_COUNT_AGE_MS = 30_000;
const AGE_FOR_DURATION = 20;
const MAX_WAIT_MS = 30;

const signingKey = z.object({
  kid: z.string(),
  signs: z.boolean(),
  madeAt: z.iso.datetime(),
  signsFrom: z.iso
    .datetime()
    .describe('when the key starts signing; a future time means that it is only published so far'),
});

type SigningKey = z.output<typeof signingKey>;

const keysJson = z.object({
  countedAt: z.iso.datetime().nullable().describe('null until the first count is done: call again a little later'),
  encryption: z.array(
    z.object({
      kid: z.string(),
      seals: z.boolean().describe('it is the first of ENCRYPTION_KEYS'),
      held: z.boolean().describe('ENCRYPTION_KEYS holds it'),
      records: z.int().nullable().describe('that it seals; null until counted'),
      kinds: z.record(z.string(), z.int()).nullable().describe('the same by kind of record'),
      droppable: z.boolean().describe('a start without it is not refused'),
      unused: z.boolean().describe('no process has sealed with it yet: a new key that is not the first one'),
      firstUsedAt: z.iso.datetime().nullable().describe('null before its first use, and once it was replaced'),
    }),
  ),
  due: z.int().nullable().describe('records that another key than the first still seals; null until counted'),
  rotation: rotationJson
    .nullable()
    .describe('the last one that was started in the browser or by this API, for 30 days'),
  processes: z.int().nullable().describe('how many ran at the time of the count'),
  signing: z.array(signingKey),
});

export function keyRoutes(parts: AdminParts) {
  const { storage, connectedApps, audit, pages, publicUrl, clock, keyRotation } = parts;
  const { sealer } = storage;
  const home = `${publicUrl.basePath}/admin/keys`;
  const { ownKeys } = connectedApps;

  const counts = new LRUCache<'report', CountedReport>({
    max: 1,
    ttl: MIN_COUNT_AGE_MS,
    perf: { now: clock },
    // The last report is used while the next count runs, and if it fails.
    allowStale: true,
    noDeleteOnFetchRejection: true,
    async fetchMethod(_key, _stale, { options }) {
      const since = clock();
      const report = await reportKeys(storage);
      options.ttl = Math.max(MIN_COUNT_AGE_MS, AGE_FOR_DURATION * (clock() - since));
      return { ...report, countedAt: isoTime(since) };
    },
  });
  /** The last report, or undefined while the first count is under way, or the first after a rotation. */
  const latestReport = (rotation: RotationProgress | undefined): Promise<CountedReport | undefined> => {
    const known = counts.peek('report', { allowStale: true });
    if (known && known.countedAt < (rotation?.finishedAt ?? '')) counts.delete('report');
    const counted = counts.forceFetch('report');
    counted.catch(() => undefined);
    return Promise.race([counted, sleep(MAX_WAIT_MS, undefined, { ref: false })]);
  };

  const signingKeys = async (): Promise<SigningKey[]> =>
    (await ownKeys.list()).map(({ kid, signs, madeAt, signsFrom }) => ({
      kid,
      signs,
      madeAt: isoTime(madeAt),
      signsFrom: isoTime(signsFrom),
    }));

  const dueIn = ({ keys }: CountedReport) =>
    keys.filter(({ seals }) => !seals).reduce((sum, { records }) => sum + records, 0);

  const rotate = (req: Request) => audited(audit, req, { event: 'signing_key.rotated' }, () => ownKeys.rotate());

  const startRotation = async (req: Request): Promise<RotationProgress> => {
    await keyRotation.assertReady();
    const entry = { event: 'key.rotation_started', facts: { kid: keyRotation.kid() } } as const;
    return audited(audit, req, entry, () => keyRotation.start(actorOf(req)));
  };

  const overview = pages.page('admin/keys/page', async ({ res }) => {
    const rotation = await keyRotation.progress();
    const [report, signing] = await Promise.all([latestReport(rotation), signingKeys()]);
    // While a rotation runs, the page renews itself.
    if (!report && rotation?.finishedAt !== null) res.set('Refresh', '2');
    const held = sealer.kids.map((kid) => ({ kid, seals: kid === sealer.sealingKid }));
    const due = report && dueIn(report);
    return { title: 'Keys', report, held, due, rotation, signing, wordsOfKind };
  });

  return {
    page: overview.handler,

    rotateByForm: pages.button(async (req) => {
      await rotate(req);
      return { url: home, flash: { notice: ROTATED } };
    }),

    rotateEncryptionByForm: confirmation(parts, {
      menuPath: 'keys',
      async find() {
        const report = await latestReport(await keyRotation.progress());
        return report && dueIn(report);
      },
      ask: (due) => ({
        action: 'Encrypt all records with',
        name: keyRotation.kid(),
        consequences: [
          `${due === undefined ? 'All records' : `The ${due.toLocaleString('en-GB')} records`} that an older key encrypts are encrypted again. Users notice nothing, and Gatehouse goes on working.`,
          'The keys themselves stay as they are. An older key can be removed once this is done.',
        ],
        verb: 'Encrypt again',
      }),
      home: () => 'keys',
      async work(req) {
        await startRotation(req).catch(asFault);
        return { url: home, flash: { notice: STARTED } };
      },
    }),

    overview: operation(
      {
        summary: 'Read the encryption keys with the number of records that each seals, and the signing keys',
        response: keysJson,
      },
      async () => {
        const rotation = (await keyRotation.progress()) ?? null;
        const [report, signing] = await Promise.all([latestReport(rotation ?? undefined), signingKeys()]);
        if (report) {
          const { countedAt, keys: encryption, processes } = report;
          return { countedAt, encryption, due: dueIn(report), rotation, processes: processes.length, signing };
        }
        const encryption = (await listKeys(storage)).map((key) => ({ ...key, records: null, kinds: null }));
        return { countedAt: null, encryption, due: null, rotation, processes: null, signing };
      },
    ),

    rotateEncryption: operation(
      {
        summary:
          'Encrypt all records with the first key again, in the background; GET /admin/api/keys has the progress',
        response: rotationJson,
        status: 202,
      },
      ({ req }) => startRotation(req),
    ),

    rotate: operation({ summary: 'Publish the next signing key now; it signs a day later' }, ({ req }) => rotate(req)),
  };
}

/** A process that is behind is no conflict with what the form shows. */
function asFault(error: unknown): never {
  if (!(error instanceof AppError) || error.code !== 'version_conflict') throw error;
  throw new AppError('invalid_request', { detail: error.detail });
}

const STARTED: Notice = { tone: 'success', text: 'Started. This page shows the progress.' };
const ROTATED: Notice = {
  tone: 'success',
  text: 'The next signing key is published. It signs in one day, so that every service has time to read it.',
};
