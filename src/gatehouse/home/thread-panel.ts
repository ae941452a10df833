/** Fetches the current thread for the home page: its content, or the problem to show instead. */

import { AppError, type FailedCall } from '../../shared/errors.ts';
import { asAppError } from '../../shared/http/problem.ts';
import { isObject, parseJson } from '../../shared/json.ts';
import { OutboundError } from '../../shared/outbound/outbound.ts';
import type { ThreadBody, ThreadPanel } from '../../shared/pages/page-data.ts';
import { cutText } from '../../shared/text.ts';
import type { CurrentApps, ThreadApp } from '../connected-apps/current-apps.ts';
import { isOurs } from '../platform/call-errors.ts';
import { type PlatformCalls, type PlatformResponse, threadCall } from '../platform/platform-call.ts';
import { sanitizeThreadHtml, withoutGaps, withoutTitle } from './thread-html.ts';

/** A slow platform must not hold up the page, which then shows a problem in place of the thread. */
const TIMEOUT_MS = 4_000;
const MAX_BYTES = 512 * 1024;
/** Limits for the body of a thread, and for a line such as its title. */
const MAX_LENGTH = 100_000;
const MAX_LINE_LENGTH = 300;
/** A longer body may have more than the six lines of the preview. */
const PREVIEW_LENGTH = 400;
/** Data nested more deeply is shown as received: indenting would make it many times larger. */
const MAX_INDENTED_LEVELS = 10;

export function createThreadPanels(parts: { calls: PlatformCalls; nameOf: CurrentApps['nameOf'] }) {
  return {
    /** @param report receives a failure, and resolves with the reference that the page shows */
    async panel(
      app: ThreadApp,
      userId: string,
      report: (error: AppError) => Promise<string | undefined>,
    ): Promise<ThreadPanel> {
      const call = { app: app.id, host: new URL(app.apiBaseUrl).host };
      const names = { appId: app.id, appName: parts.nameOf(app.id) };
      const timeout = AbortSignal.timeout(TIMEOUT_MS);
      try {
        const response = await parts.calls.read({ ownerId: userId, app, call: threadCall(app), signal: timeout });
        const text = await readText(response, timeout);
        if (response.status < 300) return threadPanel(names.appName, text);
        throw new AppError('platform_error', { logDetail: `the platform responded with ${response.status}`, call });
      } catch (error) {
        if (error instanceof AppError && error.code === 'not_connected') return { kind: 'not_connected', ...names };
        const failure = failureOf(error, timeout, call);
        const reference = await report(failure);
        const { code, words, detail, retryAfterSeconds } = failure;
        const specificWords = words.title === undefined ? undefined : { title: words.title, meaning: detail };
        const permissionsUrl = code === 'scopes_missing' ? failure.connectUrl : undefined;
        return { kind: 'problem', ...names, code, words: specificWords, permissionsUrl, reference, retryAfterSeconds };
      }
    },
  };
}

function failureOf(error: unknown, timeout: AbortSignal, call: FailedCall): AppError {
  const failure = isOurs(error) ? asAppError(error) : undefined;
  // A call that the timeout ended fails as one that broke off does.
  if (failure && !(timeout.aborted && failure.code === 'platform_error')) return failure;
  const logDetail = error instanceof OutboundError ? error.message : undefined;
  return new AppError(timeout.aborted ? 'platform_timeout' : 'platform_error', { logDetail, cause: error, call });
}

async function readText(response: PlatformResponse, timeout: AbortSignal): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  const stop = () => response.body.destroy(new Error('The time limit of the page has passed.'));
  timeout.addEventListener('abort', stop);
  try {
    for await (const chunk of response.body) {
      size += chunk.length;
      if (size > MAX_BYTES) throw new AppError('platform_error', { logDetail: 'the thread is too large for the page' });
      chunks.push(chunk);
    }
  } finally {
    timeout.removeEventListener('abort', stop);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Platforms put the thread's fields in different places of their JSON, so the usual ones are tried. */
function threadPanel(appName: string, text: string): ThreadPanel {
  const json = parseJson(text);
  if (json === undefined) {
    const body: ThreadBody = text.trim() === '' ? { kind: 'empty' } : cut('text', text);
    return { kind: 'thread', appName, title: 'Current thread', body };
  }
  const outer = isObject(json) ? json : {};
  const thread = isObject(outer.thread) ? outer.thread : outer;
  const html = textOf(outer.html) ?? textOf(thread.html);
  const title = lineOf(thread.title) ?? 'Current thread';
  return {
    kind: 'thread',
    appName,
    title,
    author: lineOf(thread.author_name) ?? lineOf(isObject(thread.author) ? thread.author.name : thread.author),
    updatedAt: instantOf(thread.updated_usec),
    body: html === undefined ? dataBody(json, text) : htmlBody(html, title),
  };
}

function htmlBody(html: string, title: string): ThreadBody {
  const clean = sanitizeThreadHtml(cutText(html, MAX_LENGTH));
  if (clean === undefined) return cut('text', html);
  const shown = withoutGaps(withoutTitle(clean, title));
  return { kind: 'html', html: shown, isLong: shown.length > PREVIEW_LENGTH, isCut: html.length > MAX_LENGTH };
}

function dataBody(json: unknown, text: string): ThreadBody {
  if (text.length > MAX_LENGTH || isDeeper(json, MAX_INDENTED_LEVELS)) return cut('json', text);
  const indented = JSON.stringify(json, null, 2);
  return { kind: 'json', text: indented, isLong: indented.length > PREVIEW_LENGTH, isCut: false };
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isDeeper(inner, levels - 1));
}

function cut(kind: 'text' | 'json', text: string): ThreadBody {
  const isCut = text.length > MAX_LENGTH;
  return { kind, text: cutText(text, MAX_LENGTH), isLong: text.length > PREVIEW_LENGTH, isCut };
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function lineOf(value: unknown): string | undefined {
  const text = textOf(value);
  return text && (cutText(text, MAX_LINE_LENGTH) || undefined);
}

/** @param microseconds since the epoch */
function instantOf(microseconds: unknown): string | undefined {
  if (typeof microseconds !== 'number') return undefined;
  const instant = new Date(microseconds / 1000);
  return Number.isNaN(instant.getTime()) ? undefined : instant.toISOString();
}
