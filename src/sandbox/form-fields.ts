/** Owns how forms of the sandbox are read: plain fields, and fields against a schema with the faults beside each. */
import type { Request } from 'express';
import type { z } from 'zod';

/** Fields that came once, as text. */
export function fields(req: Request): Record<string, string> {
  const body: unknown = req.body;
  if (typeof body !== 'object' || body === null) return {};
  return Object.fromEntries(
    Object.entries(body).filter((pair): pair is [string, string] => typeof pair[1] === 'string'),
  );
}

/** A field that may come several times, such as a row of check boxes. */
export function fieldList(req: Request, name: string): string[] {
  const body: unknown = req.body;
  const value = typeof body === 'object' && body !== null ? (body as Record<string, unknown>)[name] : undefined;
  if (Array.isArray(value)) return value.filter((one) => typeof one === 'string');
  return typeof value === 'string' ? [value] : [];
}

/** One entry for each line that is not blank. */
export function lines(text: string | undefined): string[] {
  return (text ?? '')
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '');
}

/** Faults by field name, in words. */
export type FieldFaults = Record<string, string[]>;

export function faultsByField(error: z.ZodError): FieldFaults {
  const faults: FieldFaults = {};
  for (const { path, message } of error.issues) {
    const name = String(path[0] ?? 'form');
    faults[name] = [...(faults[name] ?? []), message];
  }
  return faults;
}
