/** Sends a browser on to an address, which may be of another origin: as a redirect or, to a script, as JSON. */
import type { Request, Response } from 'express';
import { z } from 'zod';
import { wantsData, wantsPage } from './accept.ts';
import { type Content, json } from './description.ts';

const locationSchema = z.object({
  location: z.string().describe('the address to open in the browser window, such as with location.assign()'),
});

/** The responses of an operation that ends with `sendLocation`. */
export const LOCATION: Readonly<Record<200 | 303, Content>> = { 200: json(locationSchema), 303: {} };

/**
 * Redirects a navigation. A script gets the address, because `fetch` cannot follow a redirect to another origin without
 * CORS (Fetch Standard, section 4.3).
 * @param address a URL, or a local path of `origin`
 */
export function sendLocation(req: Request, res: Response, address: string, origin: string): void {
  // A GET that accepts anything counts as a navigation, and a POST as one of a script, as at the other routes.
  const isScript = req.method === 'GET' ? wantsData(req) : !wantsPage(req);
  if (isScript) {
    const location = address.startsWith('/') ? origin + address : address;
    res.json({ location } satisfies z.output<typeof locationSchema>);
    return;
  }
  seeOther(res, address);
}

/** 303 without a body: no browser shows one, and negotiating its type costs more than the rest of the response. */
export function seeOther(res: Response, address: string): void {
  res.status(303).location(address).set('Content-Length', '0').end();
}
