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

/** Describes the response of the provider for one connection, or the number of confirmed revocations for several. */
export function disconnectedNotice(result: { results: readonly Disconnected[]; goneCount: number }): Notice {
  const { results } = result;
  const confirmed = results.filter(({ revocation }) => revocation === 'revoked').length;
  const text = withGone(result, () => {
    const [first, ...others] = results;
    if (first && others.length === 0) return textOf(first);
    return `${results.length} connections ended here. The provider has confirmed ${confirmed} of the revocations.`;
  });
  return { tone: confirmed === results.length ? 'success' : 'info', text };
}

function textOf({ revocation, reply }: Disconnected): string {
  const words = reply && describeReply(reply);
  return `${WORDS[revocation]}${words ? ` (${words})` : ''}.`;
}
