/** Notices after changes of a connected app. */
import type { Notice } from '../../../shared/pages/page-data.ts';
import type { RemovedApp } from './changes.ts';
import { withdrawalWords } from './withdrawal.ts';

export const NOTICES = {
  registered_there: {
    tone: 'success',
    text: 'The app is registered at the provider and here. This is its first check.',
  },
  registered: { tone: 'success', text: 'The app is registered. This is its first check.' },
  registered_unusable: {
    tone: 'info',
    text: 'The app is registered, but cannot be used yet. See below what to do.',
  },
  add_callback: {
    tone: 'success',
    text: 'The callback URL is added here. Add it at the provider, too.',
  },
  saved: { tone: 'success', text: 'Saved. The change takes effect at once.' },
  saved_callback: {
    tone: 'success',
    text: 'Saved. The change takes effect at once. Add each new callback URL at the provider, too.',
  },
  disable: {
    tone: 'info',
    text: 'The app is disabled. Sign-ins and calls with it are refused until you enable it again.',
  },
  enable: { tone: 'success', text: 'The app is enabled again.' },
  deleted: { tone: 'success', text: 'The app is deleted.' },
} as const satisfies Record<string, Notice>;

export function noticeOf({ withdrawal, clientId }: RemovedApp): Notice {
  if (!withdrawal) return NOTICES.deleted;
  const tone = withdrawal.outcome === 'deleted' ? 'success' : 'info';
  return { tone, text: `The app is deleted here. ${withdrawalWords(withdrawal, clientId)}` };
}
