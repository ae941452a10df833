/** The platform's documents, with a current thread for each account. */
import { createHash, randomBytes } from 'node:crypto';
import type { Account, Accounts } from './accounts.ts';
import { MORE_THREADS, THREAD_TEXTS, type ThreadText } from './thread-texts.ts';

export const THREAD_ID = /^[A-Za-z0-9]{4,40}$/;

/** Times are in microseconds since 1970. */
export interface ThreadDocument {
  thread: {
    id: string;
    title: string;
    type: 'document' | 'spreadsheet' | 'chat';
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

/** A message that was added to a thread. */
export interface Message {
  id: string;
  thread_id: string;
  author: { id: string; name: string };
  created_usec: number;
  text: string;
}

export interface NewThread {
  id?: string | undefined;
  author: Account;
  type?: ThreadDocument['thread']['type'];
  title: string;
  /** HTML. */
  content: string;
  sharedWith?: readonly Account[];
  createdAtMs?: number | undefined;
  updatedAtMs?: number | undefined;
}

export interface Threads {
  currentOf(accountId: string): ThreadDocument | undefined;
  /** Returns the thread; undefined if this account may not see it. */
  find(id: string, accountId: string): ThreadDocument | undefined;
  /** Returns the threads that this account may see, latest change first. */
  recentOf(accountId: string): ThreadDocument[];
  /** Returns the threads that this account may see, newest first: in an order that changes do not touch. */
  listOf(accountId: string): ThreadDocument[];
  /** Adds a thread, which does not become the current thread of any user. */
  add(thread: NewThread): ThreadDocument;
  /** Adds the text to the end of the thread's content. */
  addMessage(thread: ThreadDocument, author: Account, text: string): Message;
  /** Makes the thread the current one of its author. */
  makeCurrent(thread: ThreadDocument): void;
}

interface Parts {
  accounts: Accounts;
  baseUrl: string;
  startedAtMs: number;
  now: () => number;
}

const HOUR_MS = 60 * 60 * 1000;

/** Creates the threads. The times of the built-in ones are fixed intervals before `startedAtMs`. */
export function createThreads({ accounts, baseUrl, startedAtMs, now }: Parts): Threads {
  const threads = new Map<string, ThreadDocument>();
  const currentIds = new Map<string, string>();

  function add({ author, type = 'document', title, content, sharedWith = [], ...options }: NewThread): ThreadDocument {
    const id = options.id ?? randomId();
    const createdAtMs = options.createdAtMs ?? now();
    const document: ThreadDocument = {
      thread: {
        id,
        title,
        type,
        author: { id: author.id, name: author.name },
        author_id: author.id,
        created_usec: createdAtMs * 1000,
        updated_usec: (options.updatedAtMs ?? createdAtMs) * 1000,
        link: `${baseUrl}/${id}`,
        is_deleted: false,
      },
      user_ids: [author, ...sharedWith].map((account) => account.id),
      shared_folder_ids: [shortId(`folder:${author.id}`, 11)],
      html: content,
    };
    threads.set(id, document);
    return document;
  }

  /** Returns the current thread of an account. The first call adds its threads, because accounts can be added later. */
  function currentOf(accountId: string): ThreadDocument | undefined {
    const existing = threads.get(currentIds.get(accountId) ?? '');
    const index = accounts.all.findIndex((account) => account.id === accountId);
    const [author, text] = [accounts.all[index], THREAD_TEXTS[index % THREAD_TEXTS.length]];
    if (existing !== undefined || author === undefined || text === undefined) return existing;
    const atMs = startedAtMs - index * HOUR_MS;
    const times = { createdAtMs: atMs - 220 * HOUR_MS, updatedAtMs: atMs - 2 * HOUR_MS };
    const thread = add({
      id: shortId(`thread:${author.id}`, 12),
      author,
      title: text.title,
      content: htmlOf(text),
      ...times,
    });
    for (const { type, title, content } of MORE_THREADS) {
      add({ id: shortId(`${type}:${author.id}`, 12), author, type, title, content, createdAtMs: times.createdAtMs });
    }
    currentIds.set(accountId, thread.thread.id);
    return thread;
  }

  const visibleTo = (accountId: string) => {
    currentOf(accountId);
    return [...threads.values()].filter(({ user_ids }) => user_ids.includes(accountId));
  };

  return {
    currentOf,
    add,
    addMessage(document, { id, name }, text) {
      const message: Message = {
        id: randomId(),
        thread_id: document.thread.id,
        author: { id, name },
        created_usec: now() * 1000,
        text,
      };
      document.html += `\n<p><b>${escapeHtml(name)}</b>: ${escapeHtml(text).replaceAll('\n', '<br>')}</p>`;
      document.thread.updated_usec = message.created_usec;
      return message;
    },
    find(id, accountId) {
      currentOf(accountId);
      const document = threads.get(id);
      return document?.user_ids.includes(accountId) ? document : undefined;
    },
    recentOf: (accountId) => visibleTo(accountId).sort((a, b) => b.thread.updated_usec - a.thread.updated_usec),
    listOf: (accountId) => visibleTo(accountId).sort((a, b) => b.thread.created_usec - a.thread.created_usec),
    makeCurrent: ({ thread }) => void currentIds.set(thread.author_id, thread.id),
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

function randomId(): string {
  return randomBytes(9).toString('base64url').replaceAll(/[-_]/g, 'A');
}

function shortId(seed: string, length: number): string {
  return createHash('sha256')
    .update(seed)
    .digest('base64')
    .replaceAll(/[^A-Za-z0-9]/g, '')
    .slice(0, length);
}
