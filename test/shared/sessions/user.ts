/** A signed-in user, as in a session. */
import type { SessionUser } from '../../../src/shared/sessions/session.ts';

export const USER: SessionUser = {
  id: 'u1',
  issuer: 'https://idp.test',
  subject: 's',
  name: 'Ada',
  email: 'ada@example.test',
  admin: false,
};
