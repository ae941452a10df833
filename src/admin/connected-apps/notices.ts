/** The notices after a change of a connected app. */
import type { Notice } from '../../pages/page-data.ts';
import type { RemovedApp } from './changes.ts';
import { withdrawalWords } from './withdrawal.ts';

export const NOTICES = {
  registered_there: {
    tone: 'success',
    text: 'The app is registered at the provider and here. Check it now to see whether it works.',
  },
  registered: { tone: 'success', text: 'The app is registered. Check it now to see whether the provider accepts it.' },
  registered_unusable: {
    tone: 'info',
    text: 'The app is registered, but it cannot be used yet: see below what to do.',
  },
  add_callback: {
    tone: 'success',
    text: 'The callback URL is added here. Make sure that the provider knows it too.',
  },
  saved: { tone: 'success', text: 'Saved. The change takes effect at once.' },
  saved_callback: {
    tone: 'success',
    text: 'Saved. The change takes effect at once. Make sure that the provider knows each new callback URL too.',
  },
  disable: { tone: 'info', text: 'The app is disabled: no sign-in and no call uses it until you enable it again.' },
  enable: { tone: 'success', text: 'The app is enabled again.' },
  deleted: { tone: 'success', text: 'The app is deleted.' },
} as const satisfies Record<string, Notice>;

/** @param connections of the app: nearly all lack a scope that has just been added */
export function withLacking(notice: Notice, connections: number): Notice {
  if (connections === 0) return notice;
  const count = connections === 1 ? 'One connection was' : `${connections.toLocaleString('en-GB')} connections were`;
  const text = `${notice.text} ${count} made before the scopes grew: each works on without the new ones until its user adds them.`;
  return { ...notice, text };
}

export function noticeOf({ withdrawal, clientId }: RemovedApp): Notice {
  if (!withdrawal) return NOTICES.deleted;
  const tone = withdrawal.outcome === 'deleted' ? 'success' : 'info';
  return { tone, text: `The app is deleted here. ${withdrawalWords(withdrawal, clientId)}` };
}
