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

export interface KeptForm {
  /** Of the response that shows the form, such as 400 if it has faults. */
  status: number;
  /** Without the values of secret fields. */
  form: unknown;
}

export interface KeptForms {
  /** Keeps the form for an hour. Returns the URL at which its page can `read` it. @param url local URL of that page */
  save(req: Request, url: string, keptForm: KeptForm): Promise<string>;
  /** Returns the form that the URL names, if this session saved it for this page. */
  read(req: Request): Promise<KeptForm | undefined>;
}

const LIFETIME_SECONDS = 3_600;

export function createKeptForms({ store, sealedJson }: { store: Store; sealedJson: SealedJson }): KeptForms {
  const keyOf = (req: Request, path: string, id: string) =>
    keys.keptForm(hashOf(JSON.stringify([sessionOf(req).ref, path, id])));

  return {
    async save(req, url, keptForm) {
      const id = randomBytes(16).toString('base64url');
      const { pathname, searchParams } = new URL(url, 'http://localhost');
      const key = keyOf(req, pathname, id);
      const value = await sealedJson.seal(keptForm, key);
      await store.write([{ put: key, value, lifetimeSeconds: LIFETIME_SECONDS }]);
      searchParams.set('form', id);
      return `${pathname}?${searchParams}`;
    },
    async read(req) {
      const id = queryField(req, 'form');
      if (id === undefined || req.context.session === undefined) return undefined;
      const key = keyOf(req, req.baseUrl + req.path, id);
      const stored = await store.get(key);
      return stored && sealedJson.open<KeptForm>(stored.value, key);
    },
  };
}
