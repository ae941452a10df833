/** Lets a form that is sent twice, such as by a double click, count once: both responses redirect to the same page. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Request } from 'express';
import { AppError } from '../errors.ts';
import { formField } from '../http/body.ts';
import { sessionOf } from '../sessions/guards.ts';
import { hashOf, keys } from '../storage/keys.ts';
import type { Store } from '../storage/store.ts';

export interface Submissions {
  /**
   * Does the work unless this session has sent the same form (its id is the field `_form`) with the same values within 60 s.
   * @param work returns the URL to go to
   * @throws AppError `invalid_request` if the first submission is still under way after 20 s
   */
  once(req: Request, work: () => Promise<string>): Promise<string>;
}

const LIFETIME_SECONDS = 60;
const MAX_WAIT_MS = 20_000;
const POLL_MS = 100;
const UNDER_WAY = '';

export function createSubmissions({ store }: { store: Pick<Store, 'get' | 'write'> }): Submissions {
  const lifetimeSeconds = LIFETIME_SECONDS;

  /** The URL that the first submission redirected to; undefined if it failed. */
  const resultOf = async (key: string): Promise<string | undefined> => {
    for (let waited = 0; waited < MAX_WAIT_MS; waited += POLL_MS) {
      const first = await store.get(key);
      if (first?.value !== UNDER_WAY) return first?.value;
      await sleep(POLL_MS);
    }
    throw new AppError('invalid_request', {
      detail: 'This form was sent twice, and the first is still under way. Look whether it is done before you go on.',
    });
  };

  return {
    async once(req, work) {
      // Forms with another file can have the same values.
      if (formField(req.body, '_form') === undefined || req.context.upload) return work();
      const key = keys.submission(hashOf(JSON.stringify([sessionOf(req).ref, req.originalUrl, req.body])));
      if (!(await store.write([{ put: key, value: UNDER_WAY, ifVersion: 0, lifetimeSeconds }]))) {
        const url = await resultOf(key);
        if (url !== undefined) return url;
      }
      const url = await work().catch(async (error: unknown) => {
        await store.write([{ delete: key }]).catch(() => undefined);
        throw error;
      });
      // The work is done: a store that fails now must not hide the secret that it made.
      await store.write([{ put: key, value: url, lifetimeSeconds }]).catch(() => undefined);
      return url;
    },
  };
}
