/**
 * Does the work of a form only once, even if it is sent twice, as by a double click. Both lead to the same page, unless
 * the first fails.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Request } from 'express';
import { AppError } from '../errors.ts';
import { formField } from '../http/body.ts';
import { sessionOf } from '../sessions/guards.ts';
import { hashOf, keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';

export interface Submissions {
  /**
   * Does the work unless this session sent the same form (the field `_form`) with the same values within 60 s. Returns
   * the URL to which the first submission redirects.
   * @param work returns the URL to redirect to
   * @throws AppError `invalid_request` if the first submission is still running after 20 s
   */
  once(req: Request, work: () => Promise<string>): Promise<string>;
}

const LIFETIME_SECONDS = 60;
const MAX_WAIT_MS = 20_000;
const POLL_MS = 100;
const RUNNING = '';

export function createSubmissions({ store }: { store: Pick<Store, 'get' | 'write'> }): Submissions {
  const lifetimeSeconds = LIFETIME_SECONDS;

  /** Returns the URL to which the first submission redirects; undefined if it failed. */
  const resultOf = async (key: string): Promise<string | undefined> => {
    for (let waited = 0; waited < MAX_WAIT_MS; waited += POLL_MS) {
      const first = await store.get(key);
      if (first?.value !== RUNNING) return first?.value;
      await sleep(POLL_MS);
    }
    throw new AppError('invalid_request', {
      detail:
        'This form was sent twice, and the first submission is still being processed. Check whether it has succeeded before you send it again.',
    });
  };

  return {
    async once(req, work) {
      // Uploads are excluded, since two forms with different files can have the same values.
      if (formField(req.body, '_form') === undefined || req.context.upload) return work();
      const key = keys.submission(hashOf(JSON.stringify([sessionOf(req).ref, req.originalUrl, req.body])));
      if (!(await store.write([{ put: key, value: RUNNING, ifVersion: 0, lifetimeSeconds }]))) {
        const url = await resultOf(key);
        if (url !== undefined) return url;
      }
      const url = await work().catch(async (error: unknown) => {
        await store.write([{ delete: key }]).catch(() => undefined);
        throw error;
      });
      // The work is done, so a failure of the store must not hide the secret that it created.
      await store.write([{ put: key, value: url, lifetimeSeconds }]).catch(() => undefined);
      return url;
    },
  };
}
