/** The notice after an administrator has disconnected a user. */

import type { Notice } from '../../../shared/pages/page-data.ts';
import { describeReply } from '../../../shared/provider/provider-reply.ts';
import type { Disconnected, DisconnectResult } from '../../grants/connections.ts';
import { withGone } from '../selection.ts';

const WORDS: Record<DisconnectResult, string> = {
  revoked: 'Disconnected. The provider has confirmed that the access is withdrawn',
  unsupported: 'Disconnected. The provider offers no way to withdraw access from here',
  unconfirmed: 'Disconnected here. The provider could not be asked to withdraw the access',
  pending:
    'Disconnected here. The provider has not confirmed yet that the access is withdrawn; it is asked again until it does',
};

/** After one, what its provider has said; after several, how many providers have confirmed it. */
export function disconnectedNotice(result: { done: readonly Disconnected[]; gone: number }): Notice {
  const { done } = result;
  const confirmed = done.filter(({ revocation }) => revocation === 'revoked').length;
  const text = withGone(result, () => {
    const [only, ...others] = done;
    if (only && others.length === 0) return textOf(only);
    return `${done.length} connections ended here. The provider has confirmed ${confirmed} of them.`;
  });
  return { tone: confirmed === done.length ? 'success' : 'info', text };
}

function textOf({ revocation, reply }: Disconnected): string {
  const words = reply && describeReply(reply);
  return `${WORDS[revocation]}${words ? ` (${words})` : ''}.`;
}
