/** Sends data responses, on Express and on the fast path. */
import type { IncomingMessage, ServerResponse } from 'node:http';

/** Sends the head. */
export function sendHead(
  req: IncomingMessage,
  res: ServerResponse,
  status: number,
  headers: Readonly<Record<string, string>>,
): void {
  const { unsentHeaders, addedHeaders, id } = req.context;
  if (!unsentHeaders) {
    for (const name in headers) res.setHeader(name, headers[name] ?? '');
    res.writeHead(status);
    return;
  }
  const flatHeaders = [...unsentHeaders, 'X-Request-Id', id];
  if (addedHeaders) flatHeaders.push(...addedHeaders);
  for (const name in headers) flatHeaders.push(name, headers[name] ?? '');
  res.writeHead(status, flatHeaders);
}

/**
 * Adds headers that stay even if the response becomes an error. On the fast path they are collected until `sendHead`,
 * because one list for `writeHead` is faster than calls of `setHeader`.
 */
export function addHeaders(
  { context }: IncomingMessage,
  res: ServerResponse,
  headers: Readonly<Record<string, string>>,
): void {
  const collected = context.unsentHeaders && (context.addedHeaders ?? []);
  for (const name in headers) {
    const value = headers[name] ?? '';
    if (collected) collected.push(name, value);
    else res.setHeader(name, value);
  }
  context.addedHeaders = collected;
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
