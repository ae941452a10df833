/** Owns the BIN lookup service's HTTP interface: one BIN in the path, its record or a problem document as the answer. */
import { randomUUID } from 'node:crypto';
import express, { type ErrorRequestHandler, type Express, type RequestHandler, type Response } from 'express';
import { parseBin } from '../bin/bin.ts';
import { createBuiltInDataset } from '../bin/built-in-dataset.ts';
import type { Dataset } from '../bin/dataset.ts';
import { PROBLEMS, type ProblemCode } from '../errors.ts';

export interface BinServiceParts {
  /** Left out: the built-in data set, read anew. */
  dataset?: Dataset;
  /** Told of what went wrong in here, for a log. */
  onFailure?: (error: unknown) => void;
}

/** What the caller may read; no answer repeats what was asked. */
const DETAILS: Partial<Record<ProblemCode, string>> = {
  invalid_bin: 'Send the first 6 to 8 digits of the card number, and only digits. Never send a full card number.',
  bin_not_found: 'Check the digits, or try more of them: up to 8.',
  not_found: 'Ask for GET /{bin}, where {bin} is the first 6 to 8 digits of a card number.',
  method_not_allowed: 'This service is read-only: use GET.',
};

/**
 * Answers `GET /{bin}` with the record as JSON, how many digits matched and the data's date in `Gatehouse-Digits-Matched`
 * and `Gatehouse-As-Of`; everything else with a problem document (RFC 9457): 400 `invalid_bin`, 404 `bin_not_found` or
 * `not_found`, 405 `method_not_allowed`.
 */
export function createBinService(parts: BinServiceParts = {}): Express {
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.set('query parser', false);
  app.use(nosniff);
  app.get('/:bin', lookUp(parts.dataset ?? createBuiltInDataset()));
  app.all('/:bin', refuseMethod);
  app.use((_request, response) => sendProblem(response, 'not_found'));
  app.use(answerError(parts.onFailure));
  return app;
}

const nosniff: RequestHandler = (_request, response, next) => {
  response.set('X-Content-Type-Options', 'nosniff');
  next();
};

function lookUp(dataset: Dataset): RequestHandler<{ bin: string }> {
  return (request, response) => {
    const { bin } = parseBin(request.params.bin);
    if (!bin) return sendProblem(response, 'invalid_bin');
    const hit = dataset.find(bin);
    if (!hit) return sendProblem(response, 'bin_not_found');
    response.set('Gatehouse-Digits-Matched', String(hit.digitsMatched)).set('Gatehouse-As-Of', dataset.asOf);
    response.json(hit.record);
  };
}

const refuseMethod: RequestHandler = (_request, response) => {
  response.set('Allow', 'GET, HEAD');
  sendProblem(response, 'method_not_allowed');
};

/** Express comes here with a path that cannot be decoded, and with what went wrong in here. */
function answerError(onFailure: BinServiceParts['onFailure']): ErrorRequestHandler {
  return (error, _request, response, next) => {
    if (error instanceof URIError) return sendProblem(response, 'invalid_bin');
    onFailure?.(error);
    if (response.headersSent) return next(error);
    sendProblem(response, 'internal');
  };
}

function sendProblem(response: Response, code: ProblemCode): void {
  const { status, title } = PROBLEMS[code];
  const problem = {
    type: `urn:gatehouse:problem:${code}`,
    title,
    status,
    ...(DETAILS[code] && { detail: DETAILS[code] }),
    instance: `urn:uuid:${randomUUID()}`,
    code,
  };
  response.status(status).type('application/problem+json').send(JSON.stringify(problem));
}
