/** Owns the documents of the platform: one current thread for each account, as such a platform would answer it. */
import { createHash } from 'node:crypto';
import type { Account } from './accounts.ts';
import { THREAD_TEXTS, type ThreadText } from './thread-texts.ts';

/** Times are microseconds since 1970, as the platform counts them. */
export interface ThreadAnswer {
  thread: {
    id: string;
    title: string;
    type: 'document';
    author: { id: string; name: string };
    author_id: string;
    created_usec: number;
    updated_usec: number;
    link: string;
    is_deleted: boolean;
  };
  user_ids: string[];
  shared_folder_ids: string[];
  html: string;
}

const HOUR_MS = 60 * 60 * 1000;

/** Answers the current thread of an account id; created and updated lie a fixed while before `startedAtMs`. */
export function createThreads(parts: { accounts: readonly Account[]; baseUrl: string; startedAtMs: number }) {
  const byAccount = new Map<string, ThreadAnswer>();
  for (const [index, account] of parts.accounts.entries()) {
    const text = THREAD_TEXTS[index % THREAD_TEXTS.length];
    if (text) byAccount.set(account.id, threadOf(account, text, parts.baseUrl, parts.startedAtMs - index * HOUR_MS));
  }
  return { currentOf: (accountId: string): ThreadAnswer | undefined => byAccount.get(accountId) };
}

function threadOf(account: Account, text: ThreadText, baseUrl: string, atMs: number): ThreadAnswer {
  const id = shortId(`thread:${account.id}`, 12);
  return {
    thread: {
      id,
      title: text.title,
      type: 'document',
      author: { id: account.id, name: account.name },
      author_id: account.id,
      created_usec: (atMs - 220 * HOUR_MS) * 1000,
      updated_usec: (atMs - 2 * HOUR_MS) * 1000,
      link: `${baseUrl}/${id}`,
      is_deleted: false,
    },
    user_ids: [account.id],
    shared_folder_ids: [shortId(`folder:${account.id}`, 11)],
    html: htmlOf(text),
  };
}

function htmlOf({ title, sections }: ThreadText): string {
  let line = 0;
  const tag = (name: string, inner: string) =>
    `<${name} id="${shortId(`${title}:${line++}`, 11)}">${escapeHtml(inner)}</${name}>`;
  const parts = [tag('h1', title)];
  for (const { heading, paragraphs, points } of sections) {
    parts.push(tag('h2', heading), ...paragraphs.map((text) => tag('p', text)));
    if (points.length > 0) parts.push(`<ul>${points.map((text) => tag('li', text)).join('')}</ul>`);
  }
  return parts.join('\n');
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

function shortId(seed: string, length: number): string {
  return createHash('sha256')
    .update(seed)
    .digest('base64')
    .replaceAll(/[^A-Za-z0-9]/g, '')
    .slice(0, length);
}
