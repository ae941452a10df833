/** R120: the text of an error, on a terminal and in the log, has no data that a library puts into its message. */
import { globSync, readFileSync } from 'node:fs';
import { parse } from 'csv-parse/sync';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { AppError, failureText, StartRefused } from '../src/shared/errors.ts';
import { createLogger } from '../src/shared/observability/logger.ts';

const MARK = 'zq-marked-zq';

function thrownBy(work: () => unknown): unknown {
  try {
    work();
  } catch (error) {
    return error;
  }
  throw new Error('Nothing was thrown.');
}

const FOREIGN_ERRORS: [origin: string, createError: () => unknown][] = [
  ['JSON.parse', () => thrownBy(() => JSON.parse(`{"a": ${MARK}}`))],
  ['csv-parse', () => thrownBy(() => parse(`a\n${MARK}"b`))],
  ['zod', () => thrownBy(() => z.strictObject({}).parse({ [MARK]: 1 }))],
  ['URL', () => thrownBy(() => new URL(MARK))],
  ['a message of several lines', () => new Error(`first\n    at ${MARK} (/x/${MARK}.ts:1:2)\n${MARK}`)],
  ['a reply of Redis', () => Object.assign(new Error(`ERR unknown ${MARK}`), { name: 'ReplyError' })],
  ['a message that was replaced', () => Object.assign(new Error(`\n    at ${MARK}`), { message: 'other' })],
  ['a text', () => MARK],
];

test.each(FOREIGN_ERRORS)('R120 of %s, the text has only the kind and the code', (_origin, createError) => {
  const error = createError();
  expect(failureText(error)).toMatch(/^an unexpected /);
  expect(failureText(error)).not.toContain(MARK);
  const lines: string[] = [];
  createLogger({ level: 'info', destination: { write: (line) => void lines.push(line) } }).error(
    { err: error },
    'failed',
  );
  expect(lines.join()).toContain('failed');
  expect(lines.join()).not.toContain(MARK);
});

test('messages of Gatehouse are shown', () => {
  expect(failureText(new AppError('not_found', { detail: 'There is none.' }))).toBe('There is none.');
  expect(failureText(new AppError('storage_unavailable', { logDetail: 'Redis is unavailable' }))).toBe(
    'Redis is unavailable',
  );
  expect(failureText(new StartRefused(['One.', 'Two.']))).toBe('One.\nTwo.');
});

/** The files that read the message of an error, and why they may: it is by Gatehouse, or only classifies the error. */
const READERS: Readonly<Record<string, string>> = {
  'src/shared/errors.ts': 'of Gatehouse, and to remove it from a stack',
  'src/shared/config/input-faults.ts': 'of schemas with messages of Gatehouse (`ADVICE`)',
  'src/shared/http/provider-hints.ts': 'of schemas with messages of Gatehouse',
  'src/gatehouse/relay/token-routes.ts': 'of schemas with messages of Gatehouse',
  'src/gatehouse/commands/bin.ts': 'of a schema with messages of Gatehouse',
  'src/sandbox/response-changes.ts': 'for a connection that ends with it',
  'src/sandbox/seed.ts': 'of schemas; values are not in them',
  'src/gatehouse/sign-in-record/failure-facts.ts': 'of OutboundError',
  'src/gatehouse/sign-in/fail.ts': 'of OutboundError',
  'src/shared/provider/provider-error.ts': 'of OutboundError',
  'src/gatehouse/webhooks/delivery.ts': 'of OutboundError',
  'src/gatehouse/home/thread-panel.ts': 'of OutboundError',
  'src/shared/http/pass-response.ts': 'of OutboundError',
  'src/shared/bin/dataset-file.ts': 'of UnusableFile',
  'src/gatehouse/commands/run.ts': 'of AppError',
  'src/gatehouse/commands/read-status.ts': 'of AppError',
  'src/shared/storage/redis/faults.ts': 'to classify',
  'src/shared/storage/redis/start-fault.ts': 'to classify',
  'src/shared/storage/redis/clients.ts': 'to classify',
  'src/shared/storage/redis/permissions.ts': 'to classify, and of Redis about a key that is never used',
  'src/shared/storage/identified-store.ts': 'of StorageRefused',
};

test('R120 no other file reads the message of an error', () => {
  const reading = globSync('src/**/*.ts').filter((file) => {
    const code = readFileSync(file, 'utf8').replaceAll(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '');
    return /\b\w*(?:error|cause|failed|failure|origin|issue|err|thrown|reason)\??\.(?:message|stack)\b|String\(\w*(?:error|cause|err)\)|issues\[0\]\?\.message/i.test(
      code,
    );
  });
  expect(reading.toSorted()).toEqual(Object.keys(READERS).toSorted());
});
