/** The notice after an administrator has disconnected users. */
import type { Notice } from '../../../shared/pages/page-data.ts';
import { describeReply } from '../../../shared/provider/provider-reply.ts';
import type { Disconnected, DisconnectResult } from '../../grants/connections.ts';
import { withGone } from '../selection.ts';

const WORDS: Record<DisconnectResult, string> = {
  revoked: 'Disconnected. The provider has confirmed the revocation',
  unsupported: 'Disconnected. The provider does not support revocation',
  unconfirmed: 'Disconnected here. No revocation could be sent to the provider',
  pending: 'Disconnected here. The revocation at the provider is pending and will be repeated until it is confirmed',
};

/** For one connection, the response of its provider; for several, the number of confirmed revocations. */
export function disconnectedNotice(result: { done: readonly Disconnected[]; gone: number }): Notice {
  const { done } = result;
  const confirmed = done.filter(({ revocation }) => revocation === 'revoked').length;
  const text = withGone(result, () => {
    const [first, ...others] = done;
    if (first && others.length === 0) return textOf(first);
    return `${done.length} connections ended here. The provider has confirmed ${confirmed} of the revocations.`;
  });
  return { tone: confirmed === done.length ? 'success' : 'info', text };
}

function textOf({ revocation, reply }: Disconnected): string {
  const words = reply && describeReply(reply);
  return `${WORDS[revocation]}${words ? ` (${words})` : ''}.`;
}
