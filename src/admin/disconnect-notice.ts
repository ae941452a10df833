/** Owns how a page tells an administrator what a disconnection came to, in the answer that follows it. */
import type { Request } from 'express';
import { saidWords } from '../connected-apps/provider-said.ts';
import type { DisconnectAnswer, Disconnected } from '../grants/connections.ts';
import { queryField } from '../http/body.ts';
import type { Notice } from '../http/page-data.ts';

const WORDS: Record<DisconnectAnswer, string> = {
  revoked: 'Disconnected. The provider has confirmed that the access is withdrawn',
  unsupported: 'Disconnected. The provider offers no way to withdraw access from here',
  unconfirmed: 'Disconnected here. The provider could not be asked to withdraw the access',
  pending:
    'Disconnected here. The provider has not confirmed yet that the access is withdrawn; it is asked again until it does',
};

/** The query with which the page that follows is asked for. */
export function disconnectedQuery({ revocation, said }: Disconnected): string {
  const query = new URLSearchParams({ done: revocation });
  if (said?.status !== undefined) query.set('status', String(said.status));
  else if (said?.error !== undefined) query.set('error', said.error);
  return `?${query}`;
}

/** Undefined where the page follows no disconnection. */
export function disconnectedNotice(req: Request): Notice | undefined {
  const done = queryField(req, 'done');
  if (done === undefined || !isAnswer(done)) return undefined;
  const status = /^[1-5]\d\d$/.exec(queryField(req, 'status') ?? '')?.[0];
  const error = /^[a-z_]{1,40}$/.exec(queryField(req, 'error') ?? '')?.[0];
  const said = status !== undefined ? saidWords({ status: Number(status) }) : error && saidWords({ error });
  return { tone: done === 'revoked' ? 'success' : 'info', text: `${WORDS[done]}${said ? ` (${said})` : ''}.` };
}

const isAnswer = (text: string): text is DisconnectAnswer => Object.hasOwn(WORDS, text);
