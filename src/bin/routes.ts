/** Owns `GET /bin/{bin}` and `POST /bin` for browser sessions: the guard against card numbers comes before anything else. */
import type { RequestHandler, Response } from 'express';
import { AppError } from '../errors.ts';
import { formField } from '../http/body.ts';
import type { BinPanel } from '../http/page-data.ts';
import type { Pages } from '../http/pages.ts';
import { report } from '../http/problem.ts';
import type { Events } from '../observability/events.ts';
import type { LookupAnswer, LookupFound, LookupProblem } from './answer.ts';
import { type Bin, parseBin } from './bin.ts';
import { type BinLookup, MOST_BINS_AT_ONCE } from './lookup.ts';

export interface BinRoutes {
  one: RequestHandler;
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
    const given = binsOf(req.body);
    const parsed = given.map((value) => parseBin(value).bin);
    const answers = await lookup.lookUpMany(parsed.filter((bin) => bin !== undefined));
    const remaining = answers.values();
    res.json({
      results: parsed.map((bin) => {
        const answer = bin === undefined ? undefined : remaining.next().value;
        return bin === undefined || !answer
          ? { problem: problemOf('invalid_bin', publicHref) }
          : resultOf(bin, answer, publicHref);
      }),
    });
  };

  return {
    async one(req, res) {
      const { bin } = parseBin(req.params.bin);
      if (!bin) throw invalidBin();
      const answer = await lookup.lookUp(bin);
      if (answer.problem !== undefined) throw lookupError(answer);
      sendRecord(res, answer);
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

function binsOf(body: unknown): unknown[] {
  const bins = typeof body === 'object' && body !== null && 'bins' in body ? body.bins : undefined;
  if (Array.isArray(bins) && bins.length >= 1 && bins.length <= MOST_BINS_AT_ONCE) return bins;
  throw new AppError('invalid_request', { detail: `Send {"bins": [...]} with 1 to ${MOST_BINS_AT_ONCE} BINs.` });
}

function resultOf(bin: Bin, answer: LookupAnswer, publicHref: string) {
  if (answer.problem !== undefined) return { bin, problem: problemOf(answer.problem, publicHref) };
  const { record, source, asOf, digitsMatched } = answer;
  return { bin, record, source, asOf, digitsMatched };
}

function problemOf(code: LookupProblem['problem'] | 'invalid_bin', publicHref: string) {
  const { status, message } = new AppError(code);
  return { type: `${publicHref}/problems/${code}`, title: message, status, code };
}

function sendRecord(res: Response, answer: LookupFound): void {
  res.set({
    'Gatehouse-Source': answer.source,
    'Gatehouse-As-Of': answer.asOf,
    'Gatehouse-Digits-Matched': String(answer.digitsMatched),
  });
  res.json(answer.record);
}

function invalidBin(): AppError {
  return new AppError('invalid_bin', { detail: 'Give the first 6 to 8 digits of a card number, and nothing else.' });
}

function lookupError({ problem, retryAfterSeconds }: LookupProblem): AppError {
  return new AppError(problem, retryAfterSeconds === undefined ? {} : { retryAfterSeconds });
}
