/** The notice after an administrator has disconnected a user. */
import { describeReply } from '../../connected-apps/provider-reply.ts';
import type { Disconnected, DisconnectResult } from '../../grants/connections.ts';
import type { Notice } from '../../pages/page-data.ts';

const WORDS: Record<DisconnectResult, string> = {
  revoked: 'Disconnected. The provider has confirmed that the access is withdrawn',
  unsupported: 'Disconnected. The provider offers no way to withdraw access from here',
  unconfirmed: 'Disconnected here. The provider could not be asked to withdraw the access',
  pending:
    'Disconnected here. The provider has not confirmed yet that the access is withdrawn; it is asked again until it does',
};

export function disconnectedNotice({ revocation, said }: Disconnected): Notice {
  const words = said && describeReply(said);
  return {
    tone: revocation === 'revoked' ? 'success' : 'info',
    text: `${WORDS[revocation]}${words ? ` (${words})` : ''}.`,
  };
}
