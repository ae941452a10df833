/** Owns `GET /bin/{bin}` and `POST /bin` for browser sessions: the guard against card numbers comes before anything else. */
import type { RequestHandler } from 'express';
import type { AppError } from '../errors.ts';
import { sendJson } from '../http/answer-head.ts';
import { formField } from '../http/body.ts';
import type { RelayedBelow } from '../http/front-door.ts';
import type { BinPanel } from '../http/page-data.ts';
import type { Pages } from '../http/pages.ts';
import { report } from '../http/problem.ts';
import type { Events } from '../observability/events.ts';
import { parseBin } from './bin.ts';
import type { BinLookup } from './lookup.ts';
import { invalidBin, lookUpBody, lookUpOne, lookupError, recordHeaders } from './requests.ts';

export interface BinRoutes {
  /** With or without Express. */
  one: RelayedBelow;
  /** JSON `{"bins": [...]}`, or the page's form field `bin`. */
  many: RequestHandler;
  /** The empty form: where somebody lands who asks again for the address of a result. */
  form: RequestHandler;
}

export function binRoutes(parts: { lookup: BinLookup; pages: Pages; events: Events; publicHref: string }): BinRoutes {
  const { lookup, pages, events, publicHref } = parts;

  const answerForm: RequestHandler = async (req, res) => {
    const panel = await lookUpPanel(lookup, formField(req.body, 'bin'), req.context.reference);
    if (panel.error) report(events, req, panel.error);
    if (panel.status !== 200) res.status(panel.status);
    if (panel.bin.error?.retryAfterSeconds !== undefined)
      res.set('Retry-After', String(panel.bin.error.retryAfterSeconds));
    pages.send(res, 'bin', { page: pages.signedInFrame(req, 'BIN look-up'), bin: panel.bin });
  };

  const answerJson: RequestHandler = async (req, res) => {
    res.json(await lookUpBody(lookup, req.body, publicHref));
  };

  return {
    async one(req, res, bin) {
      const answer = await lookUpOne(lookup, bin);
      sendJson(req, res, recordHeaders(answer), answer.record);
    },
    many: (req, res, next) => (req.is('urlencoded') ? answerForm : answerJson)(req, res, next),
    form: (req, res) => pages.send(res, 'bin', { page: pages.signedInFrame(req, 'BIN look-up'), bin: {} }),
  };
}

/** What a look-up typed into the form came to, for the page, and the status it deserves. */
async function lookUpPanel(
  lookup: BinLookup,
  typed: string | undefined,
  reference: string,
): Promise<{ bin: BinPanel; status: number; error?: AppError }> {
  const { bin } = parseBin(typed);
  const answer = bin ? await lookup.lookUp(bin) : undefined;
  if (bin && answer && answer.problem === undefined) {
    const { record, source, asOf, digitsMatched } = answer;
    return { bin: { result: { bin, record, source, asOf, digitsMatched } }, status: 200 };
  }
  const error = answer?.problem === undefined ? invalidBin() : lookupError(answer);
  return {
    bin: { error: { code: error.code, reference, retryAfterSeconds: error.retryAfterSeconds } },
    status: error.status,
    error,
  };
}
