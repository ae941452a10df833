/** Owns `GET /session/verify`, which proves a signed-in user to a service, and the keys to check the proof with. */
import type { RequestHandler } from 'express';
import type { OwnKeys } from '../connected-apps/own-keys.ts';
import { AppError } from '../errors.ts';
import { queryField } from '../http/body.ts';
import { viewerOf } from '../http/viewer.ts';
import type { UserAssertions } from './user-assertion.ts';

export interface AssertionRoutes {
  /** Behind a guard that demands a user. */
  verify: RequestHandler;
  keySet: RequestHandler;
}

const AUDIENCE = /^[\x21-\x7e]{1,200}$/;

export function assertionRoutes(parts: { ownKeys: OwnKeys; assertions: UserAssertions }): AssertionRoutes {
  const { ownKeys, assertions } = parts;
  return {
    async verify(req, res) {
      const audience = queryField(req, 'audience');
      if (audience !== undefined && !AUDIENCE.test(audience)) {
        throw new AppError('invalid_request', { detail: 'Give as audience the name, id or URL of the service.' });
      }
      res.set('Gatehouse-User-Assertion', await assertions.issue(viewerOf(req).user.id, audience));
      // A proxy looks at the status alone and reads no body.
      res.status(200).end();
    },
    async keySet(_req, res) {
      res.json(await ownKeys.publicKeys());
    },
  };
}
