/**
 * Encryption keys with the number of records that each seals, their rotation, and the signing keys. Never returns a
 * key.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Request } from 'express';
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { AppError } from '../../../shared/errors.ts';
import { operation } from '../../../shared/http/operation.ts';
import type { Notice } from '../../../shared/pages/page-data.ts';
import { actorOf } from '../../../shared/sessions/actor.ts';
import { type KeyReport, listKeys, reportKeys } from '../../../shared/storage/key-report.ts';
import { SEALED_KINDS } from '../../../shared/storage/keys.ts';
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
      /** The keys of `ENCRYPTION_KEYS`. */
      configuredKeys: readonly { kid: string; isCurrent: boolean }[];
      /** The id of the first of them. */
      encryptingKid: string;
      /** The number of records sealed by a key other than the first; undefined until they are counted. */
      recordsToEncrypt: number | undefined;
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

/** Names of record kinds on the page, if they are not the plural of the stored kind. The API uses the stored kinds. */
const KIND_WORDS: Readonly<Record<string, string>> = {
  grant: 'connections',
  'session-id-token': 'ID tokens of sessions',
  'connected-app': 'apps',
  'own-keys': 'signing keys',
  flash: 'notices after a change',
  'kept-form': 'submitted forms',
  'pending-requests': 'pending requests',
  'sign-in-return': 'return paths of sign-ins',
  revocation: 'unconfirmed revocations',
};

/** A kind of a later version keeps its stored name. */
export const wordsOfKind = (kind: string): string =>
  KIND_WORDS[kind] ?? (kind in SEALED_KINDS ? `${kind.replaceAll('-', ' ')}s` : kind);

type CountedReport = KeyReport & { countedAt: string };

/** A count reads every record. It is cached, for longer if it took long, and no request waits for its end. */
const MIN_COUNT_AGE_MS = 30_000;
const AGE_FOR_DURATION = 20;
const MAX_WAIT_MS = 30;

const signingKey = z.object({
  kid: z.string(),
  active: z.boolean(),
  createdAt: z.iso.datetime(),
  signsFrom: z.iso.datetime().describe('when the key starts to sign; a key with a future time is only published'),
});

type SigningKey = z.output<typeof signingKey>;

const keysJson = z.object({
  countedAt: z.iso.datetime().nullable().describe('null until the first count is complete; call again later'),
  encryptionKeys: z.array(
    z.object({
      kid: z.string(),
      encrypts: z.boolean().describe('true for the first key of ENCRYPTION_KEYS'),
      configured: z.boolean().describe('ENCRYPTION_KEYS contains it'),
      records: z.int().nullable().describe('the number of records that it seals; null until counted'),
      kinds: z.record(z.string(), z.int()).nullable().describe('the same number by kind of record'),
      removable: z.boolean().describe('processes start without it'),
      unused: z.boolean().describe('no process has sealed with it yet: a new key that is not the first one'),
      firstUsedAt: z.iso.datetime().nullable().describe('null before its first use, and after it was replaced'),
    }),
  ),
  due: z.int().nullable().describe('the number of records sealed by other keys than the first; null until counted'),
  rotation: rotationJson.nullable().describe('the last rotation started in the browser or by this API, within 30 days'),
  processCount: z.int().nullable().describe('the number of processes at the time of the count'),
  signingKeys: z.array(signingKey),
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
    // Serves the last report while the next count runs, and if it fails.
    allowStale: true,
    noDeleteOnFetchRejection: true,
    async fetchMethod(_key, _stale, { options }) {
      const startedAt = clock();
      const report = await reportKeys(storage);
      options.ttl = Math.max(MIN_COUNT_AGE_MS, AGE_FOR_DURATION * (clock() - startedAt));
      return { ...report, countedAt: isoTime(startedAt) };
    },
  });
  /** Returns the last report, or undefined during the first count, and during the first count after a rotation. */
  const latestReport = (rotation: RotationProgress | undefined): Promise<CountedReport | undefined> => {
    const cached = counts.peek('report', { allowStale: true });
    if (cached && cached.countedAt < (rotation?.finishedAt ?? '')) counts.delete('report');
    const newReport = counts.forceFetch('report');
    newReport.catch(() => undefined);
    return Promise.race([newReport, sleep(MAX_WAIT_MS, undefined, { ref: false })]);
  };

  const signingKeys = async (): Promise<SigningKey[]> =>
    (await ownKeys.list()).map(({ kid, active, madeAt, signsFrom }) => ({
      kid,
      active,
      createdAt: isoTime(madeAt),
      signsFrom: isoTime(signsFrom),
    }));

  const countToEncrypt = ({ encryptionKeys }: CountedReport) =>
    encryptionKeys.filter(({ encrypts }) => !encrypts).reduce((sum, { records }) => sum + records, 0);

  const rotate = (req: Request) => audited(audit, req, { event: 'signing_key.rotated' }, () => ownKeys.rotate());

  const startRotation = async (req: Request): Promise<RotationProgress> => {
    await keyRotation.assertReady();
    const entry = { event: 'encryption_key.rotation_started', facts: { kid: keyRotation.kid() } } as const;
    return audited(audit, req, entry, () => keyRotation.start(actorOf(req)));
  };

  const overview = pages.page('admin/keys/page', async ({ res }) => {
    const rotation = await keyRotation.progress();
    const [report, signing] = await Promise.all([latestReport(rotation), signingKeys()]);
    // While a rotation runs, the view reloads the page.
    if (!report && rotation?.finishedAt !== null) res.set('Refresh', '2');
    const encryptingKid = sealer.sealingKid;
    const configuredKeys = sealer.kids.map((kid) => ({ kid, isCurrent: kid === encryptingKid }));
    const recordsToEncrypt = report && countToEncrypt(report);
    return { title: 'Keys', report, configuredKeys, encryptingKid, recordsToEncrypt, rotation, signing, wordsOfKind };
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
        return report && countToEncrypt(report);
      },
      questionFor: (recordsToEncrypt) => ({
        action: 'Encrypt all records with',
        name: keyRotation.kid(),
        consequences: [
          `${recordsOfOlderKeys(recordsToEncrypt)} encrypted again. Gatehouse keeps working, and users notice nothing.`,
          'The keys themselves do not change. Older keys can be removed afterwards.',
        ],
        verb: 'Encrypt again',
      }),
      home: () => 'keys',
      async work(req) {
        await startRotation(req).catch(throwAsInvalid);
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
        const stored = { rotation, signingKeys: signing };
        if (report) {
          const { countedAt, encryptionKeys, processes } = report;
          return { ...stored, countedAt, encryptionKeys, due: countToEncrypt(report), processCount: processes.length };
        }
        const encryptionKeys = (await listKeys(storage)).map((key) => ({ ...key, records: null, kinds: null }));
        return { ...stored, countedAt: null, encryptionKeys, due: null, processCount: null };
      },
    ),

    rotateEncryption: operation(
      {
        summary:
          'Encrypt all records again with the first key, in the background; GET /admin/api/keys has the progress',
        response: rotationJson,
        status: 202,
      },
      ({ req }) => startRotation(req),
    ),

    rotate: operation({ summary: 'Publish the next signing key now; it signs a day later' }, ({ req }) => rotate(req)),
  };
}

/** @param count undefined until the records are counted */
export function recordsOfOlderKeys(count: number | undefined): string {
  if (count === 1) return 'The record encrypted by an older key is';
  const records = count === undefined ? 'All records' : `The ${count.toLocaleString('en-GB')} records`;
  return `${records} encrypted by an older key are`;
}

/** Processes with older keys do not make the form outdated, so the error must not say so. */
function throwAsInvalid(error: unknown): never {
  if (!(error instanceof AppError) || error.code !== 'version_conflict') throw error;
  throw new AppError('invalid_request', { detail: error.detail });
}

const STARTED: Notice = { tone: 'success', text: 'Started. This page shows the progress.' };
const ROTATED: Notice = {
  tone: 'success',
  text: 'The next signing key is published. It is used for signing from tomorrow on, so that every service has time to read it.',
};
