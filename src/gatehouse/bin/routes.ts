/** Serves `GET /bin/{bin}` and `POST /bin`. The guard against card numbers runs before these handlers. */
import type { IncomingMessage } from 'node:http';
import type { Request, RequestHandler, Response } from 'express';
import { z } from 'zod';
import { recordHeaders } from '../../shared/bin/lookup-result.ts';
import { parseBin } from '../../shared/bin/parse-bin.ts';
import { type BinRecord, type FactRows, factRows, recordSchema } from '../../shared/bin/record.ts';
import type { AppError } from '../../shared/errors.ts';
import { formField, queryField } from '../../shared/http/body.ts';
import { described, json, type Operation } from '../../shared/http/description.ts';
import { report } from '../../shared/http/problem.ts';
import { sendJson } from '../../shared/http/response-head.ts';
import type { FastPathHandler } from '../../shared/http/route-table.ts';
import { refuseSpeculative } from '../../shared/http/speculative.ts';
import type { Events } from '../../shared/observability/events.ts';
import type { BinPanel } from '../../shared/pages/page-data.ts';
import type { Pages } from '../../shared/pages/pages.ts';
import type { ProblemReferences } from '../../shared/pages/problem-references.ts';
import { sessionOf } from '../../shared/sessions/guards.ts';
import type { BinLookup } from './lookup.ts';
import type { BinCaller } from './quota.ts';
import { batchSchema, invalidBin, lookUpBody, lookUpOne, lookupError, resultsSchema } from './requests.ts';

declare module '../../shared/pages/page-data.ts' {
  interface BinResult {
    record: BinRecord;
    rows: FactRows;
  }
}

export interface BinRoutes {
  /** Works with and without Express. */
  one: FastPathHandler;
  /** JSON `{"bins": [...]}`, or the page's form field `bin`, which leads to `page`. */
  many: RequestHandler;
  /** Accepts only JSON. */
  manyAsJson: RequestHandler;
  /** The form, with the result of a lookup if the query names a BIN. */
  page: RequestHandler;
}

const ONE: Operation = { summary: 'Look up the facts about a BIN', responses: { 200: json(recordSchema) } };

const MANY: Operation = {
  summary: 'Look up the facts about up to 1,000 BINs',
  body: batchSchema,
  responses: { 200: json(resultsSchema) },
};

const MANY_OR_PAGE: Operation = {
  ...MANY,
  form: z.object({ bin: z.string().describe('one BIN, for the page') }),
  responses: { 200: json(resultsSchema), 303: {} },
};

export function binRoutes(parts: {
  lookup: BinLookup;
  pages: Pages;
  events: Events;
  references: Pick<ProblemReferences, 'record'>;
  publicHref: string;
}): BinRoutes {
  const { lookup, pages, events, references, publicHref } = parts;

  const sendPage = async (req: Request, res: Response, text: string | undefined) => {
    const panel = await lookUpPanel(lookup, text, callerOf(req), async (error) => {
      report(events, req, error);
      return references.record(req, error);
    });
    if (panel.status !== 200) res.status(panel.status);
    if (panel.bin.error?.retryAfterSeconds !== undefined)
      res.set('Retry-After', String(panel.bin.error.retryAfterSeconds));
    pages.send(res, 'bin/page', { page: pages.signedInFrame(req, 'BIN lookup'), bin: panel.bin });
  };

  /** A reload of the result then sends no form again. Only a valid BIN is put into the address. */
  const redirectToResult: RequestHandler = (req, res) => {
    const { bin = '' } = parseBin(formField(req.body, 'bin'));
    res.redirect(303, `${publicHref}/bin?bin=${bin}`);
  };

  const sendJsonResults: RequestHandler = async (req, res) => {
    res.json(await lookUpBody(lookup, req.body, callerOf(req), publicHref));
  };

  return {
    one: described<FastPathHandler>(ONE, async (req, res, bin) => {
      const result = await lookUpOne(lookup, bin, callerOf(req));
      sendJson(req, res, recordHeaders(result), result.record);
    }),
    many: described<RequestHandler>(MANY_OR_PAGE, (req, res, next) =>
      (req.is('urlencoded') ? redirectToResult : sendJsonResults)(req, res, next),
    ),
    manyAsJson: described(MANY, sendJsonResults),
    async page(req, res) {
      const text = queryField(req, 'bin');
      if (text === undefined)
        return pages.send(res, 'bin/page', { page: pages.signedInFrame(req, 'BIN lookup'), bin: {} });
      // A lookup may cost money.
      refuseSpeculative(req);
      return sendPage(req, res, text);
    },
  };
}

/** The guard has authenticated either a relay token or a signed-in user. */
function callerOf(req: IncomingMessage): BinCaller {
  const relayToken = req.context.relayCaller?.token;
  if (!relayToken) return { kind: 'user', id: sessionOf(req).user.id };
  return { kind: 'relay_token', id: relayToken.id, callsPerMonth: relayToken.binCallsPerMonth };
}

/** Returns the panel and the HTTP status for a lookup by the form. @param reportProblem returns its reference */
async function lookUpPanel(
  lookup: BinLookup,
  text: string | undefined,
  caller: BinCaller,
  reportProblem: (error: AppError) => Promise<string | undefined>,
): Promise<{ bin: BinPanel; status: number }> {
  const { bin } = parseBin(text);
  const result = bin ? await lookup.lookUp(bin, caller) : undefined;
  if (bin && result && result.problem === undefined) {
    const { record, source, asOf, digitsMatched, outdated, testData } = result;
    const about = {
      source,
      asOf,
      digitsMatched,
      outdated,
      testData,
      isServiceUnavailable: result.serviceProblem !== undefined,
    };
    return { bin: { result: { bin, record, rows: factRows(record), ...about } }, status: 200 };
  }
  const error = result?.problem === undefined ? invalidBin() : lookupError(result);
  return {
    bin: {
      error: {
        code: error.code,
        meaning: result && error.detail,
        reference: await reportProblem(error),
        retryAfterSeconds: error.retryAfterSeconds,
      },
    },
    status: error.status,
  };
}
