/** Somebody who is signed in, as their session knows them. */
import type { SessionUser } from '../../../src/shared/sessions/session.ts';

export const USER: SessionUser = {
  id: 'u1',
  issuer: 'https://idp.test',
  subject: 's',
  name: 'Ada',
  email: 'ada@example.test',
  admin: false,
};
