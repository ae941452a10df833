/**
 * Keeps a form for the page that shows it again, with its faults or its next step. A form leads to that page by a
 * redirect, so a reload sends nothing again.
 */
import { randomBytes } from 'node:crypto';
import type { Request } from 'express';
import { queryField } from '../http/body.ts';
import { sessionOf } from '../sessions/guards.ts';
import { hashOf, keys } from '../storage/keys.ts';
import type { SealedJson } from '../storage/sealed-json.ts';
import type { Store } from '../storage/store.ts';
import { updateRecord } from '../storage/update-record.ts';

export interface KeptForm {
  /** Of the response that shows the form, such as 400 if it has faults. */
  status: number;
  /** Without the values of secret fields. */
  form: unknown;
}

export interface KeptForms {
  /**
   * Keeps the form for an hour, unless the session sends eight more to the same page. Returns the URL at which the page
   * can `read` it. @param url of that page, on this host
   */
  save(req: Request, url: string, keptForm: KeptForm): Promise<string>;
  /** Returns the form that the URL names, if this session saved it for this page. */
  read(req: Request): Promise<KeptForm | undefined>;
}

const LIFETIME_SECONDS = 3_600;
const MAX_FORMS = 8;

/** The forms of one session and page, oldest first. One record bounds what a session can have stored. */
type FormsById = Record<string, KeptForm>;

export function createKeptForms({ store, sealedJson }: { store: Store; sealedJson: SealedJson }): KeptForms {
  const keyOf = (req: Request, path: string) => keys.keptForm(hashOf(JSON.stringify([sessionOf(req).ref, path])));
  const open = (sealed: string, key: string) => sealedJson.open<FormsById>(sealed, key);

  return {
    async save(req, url, keptForm) {
      const id = randomBytes(16).toString('base64url');
      const { pathname, searchParams } = new URL(url, 'http://localhost');
      const key = keyOf(req, pathname);
      const add = async (stored?: { sealed: string }) => {
        const earlier = Object.entries((stored && (await open(stored.sealed, key))) ?? {});
        const forms = Object.fromEntries([...earlier.slice(1 - MAX_FORMS), [id, keptForm]]);
        return { ...stored, sealed: await sealedJson.seal(forms, key) };
      };
      await updateRecord<{ sealed: string }>(store, key, add, { lifetimeSeconds: LIFETIME_SECONDS });
      searchParams.set('form', id);
      return `${pathname}?${searchParams}`;
    },
    async read(req) {
      const id = queryField(req, 'form');
      if (id === undefined || req.context.session === undefined) return undefined;
      const key = keyOf(req, req.baseUrl + req.path);
      const stored = await store.get(key);
      const forms = stored && (await open((JSON.parse(stored.value) as { sealed: string }).sealed, key));
      return forms && Object.hasOwn(forms, id) ? forms[id] : undefined;
    },
  };
}
