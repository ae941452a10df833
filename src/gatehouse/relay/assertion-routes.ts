/** Serves `GET /session/verify`, which proves a signed-in user to a service, and the keys that verify the proof. */
import type { RequestHandler } from 'express';
import { z } from 'zod';
import { AppError } from '../../shared/errors.ts';
import { queryField } from '../../shared/http/body.ts';
import { described, json, type Operation } from '../../shared/http/description.ts';
import { sessionOf } from '../../shared/sessions/guards.ts';
import type { OwnKeys } from '../connected-apps/own-keys.ts';
import type { UserAssertions } from './user-assertion.ts';

const audienceSchema = z.string().regex(/^[\x21-\x7e]{1,200}$/);

const VERIFY: Operation = {
  summary:
    'For a reverse proxy: 200 with a signed user assertion in Gatehouse-User-Assertion, or 401, for a page with the sign-in URL in Gatehouse-Sign-In',
  query: z.strictObject({
    audience: audienceSchema.optional().describe('the service that the assertion is for; by default the relay'),
  }),
  responses: { 200: {} },
};

const KEY_SET: Operation = {
  summary: 'Our public keys',
  responses: { 200: json(z.object({ keys: z.array(z.looseObject({ kty: z.string(), kid: z.string() })) })) },
};

export interface AssertionRoutes {
  /** Sends the user assertion. Must run behind a guard that requires a user. */
  verify: RequestHandler;
  keySet: RequestHandler;
}

export function assertionRoutes(parts: { ownKeys: OwnKeys; assertions: UserAssertions }): AssertionRoutes {
  const { ownKeys, assertions } = parts;
  return {
    verify: described<RequestHandler>(VERIFY, async (req, res) => {
      const audience = queryField(req, 'audience');
      if (audience !== undefined && !audienceSchema.safeParse(audience).success) {
        throw new AppError('invalid_request', {
          detail: 'Send the id of the relay token, or the URL of the service, as audience.',
        });
      }
      res.set('Gatehouse-User-Assertion', await assertions.issue(sessionOf(req).user.id, audience));
      // Proxies that make such subrequests use only the status and the headers.
      res.status(200).end();
    }),
    keySet: described<RequestHandler>(KEY_SET, async (_req, res) => {
      res.json(await ownKeys.publicKeys());
    }),
  };
}
