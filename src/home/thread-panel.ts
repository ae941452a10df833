/** Owns the current thread as the home page shows it: readable where the answer is understood, honest where it is not. */
import type { ThreadApp } from '../connected-apps/app-store.ts';
import { AppError, type ProblemCode } from '../errors.ts';
import type { ThreadBody, ThreadPanel } from '../http/page-data.ts';
import type { ThreadAnswer, ThreadCall } from '../threads/thread-call.ts';
import { sanitizeThreadHtml, withoutTitle } from './thread-html.ts';

/** The page does not wait for a slow platform: it says so and is useful without it. */
const PATIENCE_MILLISECONDS = 4_000;
const MOST_BYTES = 512 * 1024;

export function createThreadPanels(parts: { threads: ThreadCall }) {
  return {
    /** @param report hears of what the page then shows with `reference` */
    async panel(
      app: ThreadApp,
      userId: string,
      reference: string,
      report: (error: AppError) => void,
    ): Promise<ThreadPanel> {
      const names = { appId: app.id, appName: app.name };
      const patience = AbortSignal.timeout(PATIENCE_MILLISECONDS);
      try {
        const answer = await parts.threads.current({ userId, app, signal: patience });
        const text = await readText(answer, patience);
        if (answer.status < 300) return threadPanel(app.name, text);
        throw new AppError('upstream_error', { logDetail: `the platform answered ${answer.status}` });
      } catch (error) {
        if (error instanceof AppError && error.code === 'not_connected') return { kind: 'not_connected', ...names };
        const code = codeOf(error, patience);
        const failure = error instanceof AppError && error.code === code ? error : new AppError(code, { cause: error });
        report(failure);
        return { kind: 'problem', ...names, code, reference, retryAfterSeconds: failure.retryAfterSeconds };
      }
    },
  };
}

function codeOf(error: unknown, patience: AbortSignal): ProblemCode {
  const known = error instanceof AppError ? error.code : undefined;
  // Once nobody waits, the platform was too slow, unless it was never asked.
  if (patience.aborted && known !== 'provider_unavailable') return 'upstream_timeout';
  return known ?? 'upstream_error';
}

async function readText(answer: ThreadAnswer, patience: AbortSignal): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  const stop = () => answer.body.destroy(new Error('The page does not wait any longer.'));
  patience.addEventListener('abort', stop);
  try {
    for await (const chunk of answer.body) {
      size += chunk.length;
      if (size > MOST_BYTES)
        throw new AppError('upstream_error', { logDetail: 'the thread is too large for the page' });
      chunks.push(chunk);
    }
  } finally {
    patience.removeEventListener('abort', stop);
  }
  return Buffer.concat(chunks).toString('utf8');
}

type Json = Record<string, unknown>;

/** The platform's answer is JSON; where the thread lies in it differs, so the usual places are tried. */
function threadPanel(appName: string, text: string): ThreadPanel {
  const json = parseJson(text);
  if (json === undefined) {
    const body: ThreadBody = text.trim() === '' ? { kind: 'empty' } : { kind: 'text', text };
    return { kind: 'thread', appName, title: 'Current thread', body };
  }
  const outer = objectOf(json) ?? {};
  const thread = objectOf(outer.thread) ?? outer;
  const html = textOf(outer.html) ?? textOf(thread.html);
  const title = textOf(thread.title) ?? 'Current thread';
  const body: ThreadBody =
    html === undefined
      ? { kind: 'json', value: json }
      : { kind: 'html', html: withoutTitle(sanitizeThreadHtml(html), title) };
  return {
    kind: 'thread',
    appName,
    title,
    author: textOf(thread.author_name) ?? textOf(objectOf(thread.author)?.name) ?? textOf(thread.author),
    updatedAt: instantOf(thread.updated_usec),
    body,
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function objectOf(value: unknown): Json | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : undefined;
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** Microseconds since the epoch. */
function instantOf(microseconds: unknown): string | undefined {
  if (typeof microseconds !== 'number') return undefined;
  const instant = new Date(microseconds / 1000);
  return Number.isNaN(instant.getTime()) ? undefined : instant.toISOString();
}
