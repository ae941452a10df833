/** Reads the forms of the sandbox that have no schema. */
import type { Request } from 'express';

/** Returns the fields that were sent exactly once. */
export function fields(req: Request): Record<string, string> {
  const body: unknown = req.body;
  if (typeof body !== 'object' || body === null) return {};
  return Object.fromEntries(
    Object.entries(body).filter((pair): pair is [string, string] => typeof pair[1] === 'string'),
  );
}
