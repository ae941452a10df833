/** Owns answers that are data, whichever way the request came: their head leaves in one go where it came past Express. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { DATA_POLICY } from './security-headers.ts';

/** Whatever is in the answer is shown as data, never run as a page of ours. */
export function sendHead(
  req: IncomingMessage,
  res: ServerResponse,
  status: number,
  headers: Readonly<Record<string, string>>,
): void {
  const { unsentHeaders, addedHeaders, id } = req.context;
  if (!unsentHeaders) {
    for (const name in headers) res.setHeader(name, headers[name] ?? '');
    res.setHeader('Content-Security-Policy', DATA_POLICY);
    res.writeHead(status);
    return;
  }
  const flat = [...unsentHeaders, 'X-Request-Id', id];
  if (addedHeaders) flat.push(...addedHeaders);
  for (const name in headers) flat.push(name, headers[name] ?? '');
  res.writeHead(status, flat);
}

/** Headers that this answer carries however it ends. On the short way they wait for its head: a list is sent faster than it is set. */
export function addHeaders(
  { context }: IncomingMessage,
  res: ServerResponse,
  headers: Readonly<Record<string, string>>,
): void {
  for (const name in headers) {
    const value = headers[name] ?? '';
    if (context.unsentHeaders) context.addedHeaders = [...(context.addedHeaders ?? []), name, value];
    else res.setHeader(name, value);
  }
}

export function sendJson(
  req: IncomingMessage,
  res: ServerResponse,
  headers: Readonly<Record<string, string>>,
  value: unknown,
): void {
  const text = JSON.stringify(value);
  const length = String(Buffer.byteLength(text));
  sendHead(req, res, 200, { ...headers, 'Content-Type': 'application/json; charset=utf-8', 'Content-Length': length });
  res.end(text);
}
